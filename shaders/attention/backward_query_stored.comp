// Causal attention backward, dQ for heads of at most 64 columns, from the ds that
// backward_key_value_narrow.glsl has stored:
//   dq[i] = (sum_{j <= i} ds[i, j] k[j]) * scale
// A chain over j in order, 128 queries of one head per workgroup, 8 x 8 elements per thread. Steps of
// eight keys pass through shared memory; the next step is loaded while one is computed.
// qkv, dqkv: [B, T, 3, H, D], of which the first of three is written; ds: narrow.glsl.
#define THREAD_ROWS 8
#define THREADS_Y 16
#define STORED_DS
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "narrow.glsl"

READ_ROWS(0, readonly, QKV, fetch_qkv, qkv, qkv_vectors)
layout(set = 0, binding = 1) readonly buffer DS { vec4 ds[]; };
WRITE_ROWS(2, writeonly, DQKV, store_dqkv, dqkv, dqkv_vectors)

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
    // The first row of this thread, and the first and the last of these 32 threads.
    uint first_row = row0 + 8u * ty;
    uint own_row0 = row0 + 8u * (ty & ~3u);
    uint last_row = own_row0 + 31u;

    // Of each step, a thread loads four queries' ds of two keys, and a vector of one key.
    uint key_of_ds = gl_LocalInvocationIndex / QUERY_UNITS;
    uint query = row0 + 4u * (gl_LocalInvocationIndex % QUERY_UNITS);
    uint ds_at = stored_at(stored_head, query, 0u);
    uint ds_end = query < push.time ? min(push.time, (query / 32u + 1u) * 32u) : 0u;
    uint key_of_unit = gl_LocalInvocationIndex / UNITS;
    uint unit = gl_LocalInvocationIndex % UNITS;
    uint keys_at = qkv_base(head, 1u) + 4u * unit;

    precise vec4 sums[8][2];
    CLEAR(sums, 8u)
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
#define ALWAYS(r, k) true
#define SEEN(r, k) (key0 + (k) <= first_row + (r))
#define ADD_SEEN(sum, x, y, seen)                                                \
    if (seen) sum = fma4(x, y, sum);
// The terms of the keys key0 .. key0 + 7, of those that are SEES(row of the thread, key of the step).
#define ADD_STEP(SEES)                                                           \
    EACH(k, STEP,                                                                \
        vec4 near = weights[(current * STEP + k) * QUERY_UNITS + 2u * ty];       \
        vec4 far = weights[(current * STEP + k) * QUERY_UNITS + 2u * ty + 1u];   \
        EACH(v, 2u,                                                              \
            if (8u * v < UNITS) {                                                \
                vec4 y = keys[(current * STEP + k) * UNITS + tx + 8u * v];       \
                EACH(r, 4u,                                                      \
                    ADD_SEEN(sums[r][v], near[r], y, SEES(r, k))                 \
                    ADD_SEEN(sums[r + 4u][v], far[r], y, SEES(r + 4u, k))        \
                )                                                                \
            }                                                                    \
        )                                                                        \
    )
#define KEEP(buffer_idx)                                                         \
    [[unroll]] for (uint i = 0u; i < 2u; ++i)                                    \
        weights[(buffer_idx) * STEP * QUERY_UNITS + gl_LocalInvocationIndex + THREADS * i] = next_ds[i]; \
    if (key_of_unit < STEP)                                                      \
        keys[(buffer_idx) * STEP * UNITS + gl_LocalInvocationIndex] = next_key;
    FETCH(0u)
    KEEP(0u)
    barrier();

    uint end = min(push.time, row0 + ROWS);
    uint current = 0u;
    for (uint key0 = 0u; key0 < end; key0 += STEP) {
        FETCH(key0 + STEP)
        // What a query does not see is skipped: times a ds of 0, an infinity would be NaN.
        if (key0 < own_row0) {
            ADD_STEP(ALWAYS)
        } else if (key0 <= last_row) {
            ADD_STEP(SEEN)
        }
        current ^= 1u;
        KEEP(current)
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
