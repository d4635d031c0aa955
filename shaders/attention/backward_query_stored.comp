// Causal attention backward, dQ for heads of at most 64 columns, from the ds that
// backward_key_value_narrow.glsl has stored:
//   dq[i] = (sum_{j <= i} ds[i, j] k[j]) * scale
// A chain over j in order, 128 queries of one head a workgroup, 8 x 8 elements a thread. Steps of
// eight keys pass through shared memory; the next step is loaded while one is computed.
// qkv, dqkv: [B, T, 3, H, D], of which the first of three is written; ds: narrow.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 8
#define THREADS_Y 16
#define STORED_DS
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "narrow.glsl"

layout(set = 0, binding = 0) readonly buffer QKV { float qkv[]; };
layout(set = 0, binding = 0) readonly buffer QKVVectors { vec4 qkv_vectors[]; };
layout(set = 0, binding = 1) readonly buffer DS { vec4 ds[]; };
layout(set = 0, binding = 2) writeonly buffer DQKV { float dqkv[]; };
layout(set = 0, binding = 2) writeonly buffer DQKVVectors { vec4 dqkv_vectors[]; };

DEFINE_FETCH(fetch_qkv, qkv, qkv_vectors)
DEFINE_STORE(store_dqkv, dqkv, dqkv_vectors)

const uint STEP = 8u;
// Vectors of four queries.
const uint QUERY_UNITS = ROWS / 4u;
// ds of [key][queries] and the keys, of two steps.
shared vec4 weights[2u * STEP * QUERY_UNITS];
shared vec4 keys[2u * STEP * UNITS];

void main() {
    uint tx = thread_tx();
    uint ty = thread_ty();
    // The tiles with most keys of all heads go first, so that the last to finish are short.
    uint tiles = (push.time + ROWS - 1u) / ROWS;
    uint tile = hlx_group() / push.heads;
    if (tile >= tiles) return;
    uint row0 = (tiles - 1u - tile) * ROWS;
    uint stored_head = hlx_group() % push.heads;
    uint head = push.first_head + stored_head;
    // The last row of these 32 threads.
    uint last_row = row0 + 8u * (ty | 3u) + 7u;

    // Of each step, a thread loads four queries' ds of two keys, and a vector of one key.
    uint key_of_ds = gl_LocalInvocationIndex / QUERY_UNITS;
    uint query = row0 + 4u * (gl_LocalInvocationIndex % QUERY_UNITS);
    uint ds_at = stored_at(stored_head, query, 0u);
    uint ds_end = query < push.time ? min(push.time, (query / 32u + 1u) * 32u) : 0u;
    uint key_of_unit = gl_LocalInvocationIndex / UNITS;
    uint unit = gl_LocalInvocationIndex % UNITS;
    uint keys_at = qkv_base(head, 1u) + 4u * unit;

    precise vec4 sums[8][2];
    [[unroll]] for (uint r = 0u; r < 8u; ++r) {
        sums[r][0] = vec4(0.0);
        sums[r][1] = vec4(0.0);
    }
    vec4 next_ds[2];
    vec4 next_key = vec4(0.0);
#define FETCH(key0)                                                              \
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {                                  \
        uint key = (key0) + key_of_ds + 4u * i;                                  \
        next_ds[i] = vec4(0.0);                                                  \
        if (key < ds_end) next_ds[i] = ds[ds_at + 8u * key];                     \
    }                                                                            \
    if (key_of_unit < STEP)                                                      \
        next_key = fetch_qkv(keys_at + min((key0) + key_of_unit, push.time - 1u) * QKV_STRIDE, 4u * unit);
#define KEEP(buffer_idx, key0)                                                   \
    [[unroll]] for (uint i = 0u; i < 2u; ++i)                                    \
        weights[(buffer_idx) * STEP * QUERY_UNITS + gl_LocalInvocationIndex + THREADS * i] = next_ds[i]; \
    if (key_of_unit < STEP)                                                      \
        keys[(buffer_idx) * STEP * UNITS + gl_LocalInvocationIndex] = next_key;  \
    if ((key0) >= row0 && is_awkward(next_key)) atomicOr(awkward, 1u);
// The terms of a step, where it holds a NaN or an infinity: of the keys that a row sees.
#define ADD_SEEN                                                                 \
    [[dont_unroll]] for (uint k = 0u; k < STEP; ++k) {                           \
        vec4 near = weights[(current * STEP + k) * QUERY_UNITS + 2u * ty];       \
        vec4 far = weights[(current * STEP + k) * QUERY_UNITS + 2u * ty + 1u];   \
        uint row = row0 + 8u * ty;                                               \
        EACH(v, 2u,                                                              \
            if (8u * v < UNITS) {                                                \
                vec4 y = keys[(current * STEP + k) * UNITS + tx + 8u * v];       \
                EACH(r, 4u,                                                      \
                    if (key0 + k <= row + r) sums[r][v] = fma4(near[r], y, sums[r][v]); \
                    if (key0 + k <= row + r + 4u) sums[r + 4u][v] = fma4(far[r], y, sums[r + 4u][v]); \
                )                                                                \
            }                                                                    \
        )                                                                        \
    }
    if (gl_LocalInvocationIndex == 0u) awkward = 0u;
    barrier();
    FETCH(0u)
    KEEP(0u, 0u)
    barrier();

    uint end = min(push.time, row0 + ROWS);
    uint current = 0u;
    for (uint key0 = 0u; key0 < end; key0 += STEP) {
        FETCH(key0 + STEP)
        if (key0 >= row0 && awkward != 0u) {
            ADD_SEEN
        } else if (key0 <= last_row) {
            EACH(k, STEP,
                vec4 near = weights[(current * STEP + k) * QUERY_UNITS + 2u * ty];
                vec4 far = weights[(current * STEP + k) * QUERY_UNITS + 2u * ty + 1u];
                EACH(v, 2u,
                    if (8u * v < UNITS) {
                        vec4 y = keys[(current * STEP + k) * UNITS + tx + 8u * v];
                        EACH(r, 4u,
                            sums[r][v] = fma4(near[r], y, sums[r][v]);
                            sums[r + 4u][v] = fma4(far[r], y, sums[r + 4u][v]);
                        )
                    }
                )
            )
        }
        current ^= 1u;
        KEEP(current, key0 + STEP)
        barrier();
    }

    EACH(r, 8u,
        uint t = row0 + 8u * ty + r;
        if (t < push.time) {
            EACH(v, 2u,
                if (8u * v < UNITS) {
                    uint d = 4u * (tx + 8u * v);
                    store_dqkv(qkv_base(head, 0u) + t * QKV_STRIDE + d, d,
                               mul4(pos0_4(sums[r][v]), push.scale));
                }
            )
        }
    )
}
