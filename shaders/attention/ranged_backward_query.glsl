// Attention over ranges, dQ:
//   p[i, j] = exp(s[i, j] - m_i) * (1 / l_i); dp[i, j] = sum_d do[i, d] v[j, d]
//   (where weights are dropped: dp / (1 - p), or 0); ds[i, j] = p (dp - delta_i)
//   (where scores are capped, with t = tanh(s / cap): ds = (p (1 - t t)) (dp - delta_i))
//   dq[i] = (sum_j ds[i, j] k[j]) * scale
// All sums are chains, over d and over the keys that i sees, in order. do, dq: [B, T, H, D];
// stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T], of backward_delta.comp.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#include "ranged.glsl"
#include "ranged_rows.glsl"

READ_ROWS(0, readonly, Q, fetch_q, q_scalars, q_vectors)
READ_ROWS(1, readonly, K, fetch_k, k_scalars, k_vectors)
READ_ROWS(2, readonly, V, fetch_v, v_scalars, v_vectors)
layout(set = 0, binding = 3) readonly buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 4) readonly buffer Counter { uint step_and_base[]; };
layout(set = 0, binding = 5) readonly buffer Stats { float stats[]; };
READ_ROWS(6, readonly, DO, fetch_d_o, d_o, d_o_vectors)
layout(set = 0, binding = 7) readonly buffer Delta { float delta[]; };
WRITE_ROWS(8, writeonly, DQ, store_dq, dq, dq_vectors)

// 64 columns of the block's keys, and of its values.
shared vec4 columns[2 * COLS * UNITS];
shared vec4 weights[ROWS * 8];

#define QUERY(r, u) fetch_q(rows_at[r] + first_d, first_d)
#define UPSTREAM(r, u) fetch_d_o(d_o_at[r] + first_d, first_d)

void main() {
    OWN_QUERIES
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    uint rows_at[THREAD_ROWS];
    uint d_o_at[THREAD_ROWS];
    uint low[THREAD_ROWS];
    uint high[THREAD_ROWS];
    precise float m[THREAD_ROWS];
    precise float inverse[THREAD_ROWS];
    precise float offset[THREAD_ROWS];
    precise vec4 sums[THREAD_ROWS][2 * CHUNKS];
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
        uint t = min(row0 + ROW(r), push.queries - 1u);
        rows_at[r] = q_base(sample_idx, head) + t * push.q_position;
        d_o_at[r] = o_base(sample_idx, head) + t * O_STRIDE;
        uint at = stats_base(sample_idx, head) + t;
        m[r] = stats[2u * at];
        inverse[r] = stats[2u * at + 1u];
        offset[r] = delta[at];
        [[unroll]] for (uint v = 0u; v < 2u * CHUNKS; ++v) sums[r][v] = vec4(0.0);
    }

    for (uint start = 0u; start < n;) {
        find_segment(start, n, true);
        uint origin = tile_ranges[start].x;
        for (uint key0 = first_column; key0 < end_column; key0 += COLS) {
            bool edge = key0 < inner_begin || key0 + COLS > inner_end;
            SEEN_COLUMNS(start, key0)
            precise vec4 s[THREAD_ROWS];
            precise vec4 dp[THREAD_ROWS];
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
                s[r] = vec4(0.0);
                dp[r] = vec4(0.0);
            }
            for (uint chunk = 0u; chunk < CHUNKS && 64u * chunk < D; ++chunk) {
                barrier();
                LOAD_COLUMNS(columns, 0u, fetch_k, k_base(sample_idx, head), push.k_position, key0,
                             push.keys - 1u, chunk)
                LOAD_COLUMNS(columns, COLS * UNITS, fetch_v, v_base(sample_idx, head),
                             push.v_position, key0, push.keys - 1u, chunk)
                barrier();
                if (busy) {
                    CONTRACT_CHUNK(s, QUERY, columns, 0u, chunk)
                    CONTRACT_CHUNK(dp, UPSTREAM, columns, COLS * UNITS, chunk)
                }
            }
            if (busy) {
                EACH(r, THREAD_ROWS,
                    uvec4 words = uvec4(0u);
                    if (DROPPED) words = draw4(key, head, tile_ranges[ROW(r)].w, (key0 - origin) / 4u + tx);
                    EACH(c, 4u,
                        precise float t;
                        precise float x = hlx_sub(score(s[r][c], t), m[r]);
                        precise float p = hlx_mul(exp_below(x), inverse[r]);
                        if (CAPPED) p = hlx_mul(p, hlx_fma(-t, t, 1.0));
                        precise float d = dp[r][c];
                        if (DROPPED) d = is_kept(words[c]) ? hlx_mul(d, push.factor) : 0.0;
                        s[r][c] = hlx_mul(p, hlx_sub(d, offset[r]));
                    )
                )
                [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) weights[WEIGHT(ROW(r), tx)] = s[r];
            }
            barrier();
            EACH(chunk, CHUNKS,
                if (64u * chunk < D) {
                    if (CHUNKS > 1) {
                        barrier();
                        LOAD_COLUMNS(columns, 0u, fetch_k, k_base(sample_idx, head), push.k_position,
                                     key0, push.keys - 1u, chunk)
                        barrier();
                    }
                    if (busy) ACCUMULATE_CHUNK(edge, weights, 0u, columns, 0u, chunk)
                }
            )
        }
        start = segment_end;
    }

    EACH(r, THREAD_ROWS,
        if (ROW(r) < n) {
            EACH(v, 2u * CHUNKS,
                uint d = 4u * (tx + 8u * v);
                if (8u * v < UNITS * CHUNKS && d < D)
                    store_dq(o_base(sample_idx, head) + (row0 + ROW(r)) * O_STRIDE + d, d,
                             mul4(pos0_4(sums[r][v]), push.scale));
            )
        }
    )
}
