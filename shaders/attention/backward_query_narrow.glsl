// Causal attention backward, delta and dQ, for heads of at most 64 columns; the formulas and the
// order of every sum are those of backward_query.comp. The queries and do stay in shared memory,
// blocks of 32 keys and values pass by. The including file gives the tile (narrow.glsl).
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "narrow.glsl"

layout(set = 0, binding = 0) readonly buffer QKV { float qkv[]; };
layout(set = 0, binding = 0) readonly buffer QKVVectors { vec4 qkv_vectors[]; };
layout(set = 0, binding = 1) readonly buffer O { float o[]; };
layout(set = 0, binding = 1) readonly buffer OVectors { vec4 o_vectors[]; };
layout(set = 0, binding = 2) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 3) readonly buffer DO { float d_o[]; };
layout(set = 0, binding = 3) readonly buffer DOVectors { vec4 d_o_vectors[]; };
layout(set = 0, binding = 4) writeonly buffer Delta { float delta[]; };
layout(set = 0, binding = 5) writeonly buffer DQKV { float dqkv[]; };
layout(set = 0, binding = 5) writeonly buffer DQKVVectors { vec4 dqkv_vectors[]; };

DEFINE_FETCH(fetch_qkv, qkv, qkv_vectors)
DEFINE_FETCH(fetch_o, o, o_vectors)
DEFINE_FETCH(fetch_d_o, d_o, d_o_vectors)
DEFINE_STORE(store_dqkv, dqkv, dqkv_vectors)

shared vec4 queries[ROWS * UNITS];
shared vec4 d_outs[ROWS * UNITS];
shared vec4 keys[COLS * UNITS];
// The block's values; once dp is known, ds in their place.
shared vec4 values[COLS * UNITS > ROWS * 8 ? COLS * UNITS : ROWS * 8];

#define QUERY(r, u) SHARED_ROW(queries, 0u, r, u)
#define D_OUT(r, u) SHARED_ROW(d_outs, 0u, r, u)

void main() {
    uint tx = thread_tx();
    uint first_row = thread_first_row();
    uint tiles = (push.time + ROWS - 1u) / ROWS;
    uint head = hlx_group() / tiles;
    if (head >= push.heads) return;
    uint row0 = (tiles - 1u - hlx_group() % tiles) * ROWS;
    uint last_row = row0 + 4u * THREAD_ROWS * ((thread_ty() >> 2) + 1u) - 1u;

    LOAD_TILE(queries, 0u, ROWS, NATURAL, fetch_qkv, qkv_base(head, 0u), QKV_STRIDE, row0)
    LOAD_TILE(d_outs, 0u, ROWS, NATURAL, fetch_d_o, o_base(head), O_STRIDE, row0)
    barrier();

    if (gl_LocalInvocationIndex < ROWS) {
        uint row = gl_LocalInvocationIndex;
        uint t = min(row0 + row, push.time - 1u);
        precise float sum = 0.0;
        EACH(u, UNITS,
            vec4 x = d_outs[row * UNITS + (u ^ (row & 7u))];
            vec4 y = fetch_o(o_base(head) + t * O_STRIDE + 4u * u, 4u * u);
            EACH(k, 4u, sum = hlx_fma(x[k], y[k], sum);)
        )
        sum = hlx_pos0(sum);
        values[row] = vec4(sum);
        if (row0 + row < push.time) delta[head * push.time + t] = sum;
    }
    barrier();

    precise float deltas[THREAD_ROWS];
    precise float m[THREAD_ROWS];
    precise float inverse[THREAD_ROWS];
    precise vec4 sums[THREAD_ROWS][2];
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
        uint at = head * push.time + min(row0 + ROW(r), push.time - 1u);
        deltas[r] = values[ROW(r)].x;
        m[r] = stats[2u * at];
        inverse[r] = stats[2u * at + 1u];
        sums[r][0] = vec4(0.0);
        sums[r][1] = vec4(0.0);
    }

    uint end = min(push.time, row0 + ROWS);
    for (uint key0 = 0u; key0 < end; key0 += COLS) {
        bool busy = key0 <= last_row;
        barrier();
        LOAD_TILE(keys, 0u, COLS, COLUMN_OF_SLOT, fetch_qkv, qkv_base(head, 1u), QKV_STRIDE, key0)
        LOAD_TILE(values, 0u, COLS, COLUMN_OF_SLOT, fetch_qkv, qkv_base(head, 2u), QKV_STRIDE, key0)
        barrier();
        precise vec4 s[THREAD_ROWS];
        precise vec4 dp[THREAD_ROWS];
        [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
            s[r] = vec4(0.0);
            dp[r] = vec4(0.0);
        }
        if (busy) {
            CONTRACT(s, QUERY, keys, 0u)
            CONTRACT(dp, D_OUT, values, 0u)
            EACH(r, THREAD_ROWS,
                EACH(c, 4u,
                    precise float p = exp_below(hlx_sub(hlx_mul(s[r][c], push.scale), m[r]));
                    s[r][c] = hlx_mul(hlx_mul(p, inverse[r]), hlx_sub(dp[r][c], deltas[r]));
                )
            )
            if (key0 + COLS > row0) {
                [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r)
                    [[unroll]] for (uint c = 0u; c < 4u; ++c)
                        if (key0 + 4u * tx + c > row0 + ROW(r)) s[r][c] = 0.0;
            }
        }
        barrier();
        if (busy)
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) values[WEIGHT(ROW(r), tx)] = s[r];
        barrier();
        if (busy) {
            ACCUMULATE(sums, values, 0u, keys, 0u)
        }
    }

    EACH(r, THREAD_ROWS,
        uint t = row0 + ROW(r);
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
