// Attention over ranges, forward; blocks of 32 keys count from the first key of the query's document.
//   s[i, j] = (sum_d q[i, d] k[j, d]) * scale, or cap tanh(s / cap), for the keys that i sees
// A block with such keys updates, with m' = max(m, max_j s[i, j]) and c = exp(m - m'):
//   l = l c, then l + p_j in order; o = o c, then fma(w_j, v[j], o) in order,
//   p_j = exp(s[i, j] - m'), w_j = p_j, or p_j / (1 - p) and 0 where weights are dropped.
// o[i] = o / l; stats = (m, 1 / l); zeros where i sees no key. o: [B, T, H, D]; stats: [B, H, T, 2].
#define PAGES_SLOT 7
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
layout(set = 0, binding = 5) buffer O { float o[]; };
layout(set = 0, binding = 5) buffer OVectors { vec4 o_vectors[]; };
layout(set = 0, binding = 6) writeonly buffer Stats { float stats[]; };

DEFINE_STORE(store_o, o, o_vectors)
DEFINE_FETCH(fetch_o, o, o_vectors)

// 64 columns of the block's keys, then of its values.
shared vec4 columns[COLS * UNITS];
shared vec4 weights[ROWS * 8];
// Eight threads' maxima of each row; at the end each row's l.
shared vec4 tops[ROWS * 2];

#define QUERY(r, u) fetch_q(rows_at[r] + first_d, first_d)
// Where a thread's row r has column d.
#define OUTPUT_AT(r, d) (o_base(sample_idx, head) + (row0 + ROW(r)) * O_STRIDE + (d))
#define STORE_WEIGHTS                                                            \
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) weights[WEIGHT(ROW(r), tx)] = s[r];

void main() {
    OWN_QUERIES
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    uint rows_at[THREAD_ROWS];
    uint low[THREAD_ROWS];
    uint high[THREAD_ROWS];
    precise float m[THREAD_ROWS];
    precise vec4 sums[THREAD_ROWS][2 * CHUNKS];
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
        uint t = min(row0 + ROW(r), push.queries - 1u);
        rows_at[r] = q_base(sample_idx, head) + t * push.q_position;
        m[r] = uintBitsToFloat(0xff800000u);
        [[unroll]] for (uint v = 0u; v < 2u * CHUNKS; ++v) sums[r][v] = vec4(0.0);
    }
    // Each thread sums l of one of its rows.
    uint own = tx % THREAD_ROWS;
    precise float l = 0.0;

    for (uint start = 0u; start < n;) {
        find_segment(start, n, true);
        uint origin = tile_ranges[start].x;
        for (uint key0 = first_column; key0 < end_column; key0 += COLS) {
            bool edge = key0 < inner_begin || key0 + COLS > inner_end;
            uint shift = page_shift(sample_idx, key0);
            uint k_at = k_base(sample_idx, head) + shift * push.k_position;
            uint v_at = v_base(sample_idx, head) + shift * push.v_position;
            SEEN_COLUMNS(start, key0)
            precise vec4 s[THREAD_ROWS];
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) s[r] = vec4(0.0);
            for (uint chunk = 0u; chunk < CHUNKS && 64u * chunk < D; ++chunk) {
                barrier();
                LOAD_COLUMNS(columns, 0u, fetch_k, k_at, push.k_position, key0, push.keys - 1u, chunk)
                barrier();
                if (busy) CONTRACT_CHUNK(s, QUERY, columns, 0u, chunk)
            }
            if (busy) {
                EACH(r, THREAD_ROWS,
                    EACH(c, 4u,
                        precise float t;
                        s[r][c] = score(s[r][c], t);
                        uint column = 4u * tx + c;
                        if (edge && (column < low[r] || column >= high[r]))
                            s[r][c] = uintBitsToFloat(0xff800000u);
                    )
                    precise float top = hlx_max(hlx_max(s[r].x, s[r].y), hlx_max(s[r].z, s[r].w));
                    tops[2u * ROW(r) + (tx >> 2)][tx & 3u] = top;
                )
            }
            barrier();
            LOAD_COLUMNS(columns, 0u, fetch_v, v_at, push.v_position, key0, push.keys - 1u, 0u)
            if (busy) {
                precise float own_correction = 1.0;
                EACH(r, THREAD_ROWS,
                    if (low[r] < high[r]) {
                        JOIN_TOPS(tops, 2u * ROW(r))
                        MOVE_MAXIMUM(m[r], hlx_max(left, right))
                        if (r == own) own_correction = correction;
                        EACH(v, 2u * CHUNKS, sums[r][v] = mul4(sums[r][v], correction);)
                        EACH(c, 4u, s[r][c] = exp_below(hlx_sub(s[r][c], now));)
                    }
                    if (edge) {
                        EACH(c, 4u,
                            uint column = 4u * tx + c;
                            if (column < low[r] || column >= high[r]) s[r][c] = 0.0;
                        )
                    }
                )
                STORE_WEIGHTS
                l = hlx_mul(l, own_correction);
            }
            barrier();
            if (busy) {
                SUM_WEIGHTS(l, weights, ROW(own))
            }
            if (DROPPED) {
                barrier();
                if (busy) {
                    EACH(r, THREAD_ROWS,
                        uvec4 words = draw4(key, head, tile_ranges[ROW(r)].w, (key0 - origin) / 4u + tx);
                        DROP_WEIGHTS(s[r], words)
                    )
                    STORE_WEIGHTS
                }
                barrier();
            }
            EACH(chunk, CHUNKS,
                if (64u * chunk < D) {
                    if (chunk > 0u) {
                        barrier();
                        LOAD_COLUMNS(columns, 0u, fetch_v, v_at, push.v_position, key0, push.keys - 1u, chunk)
                        barrier();
                    }
                    if (busy) ACCUMULATE_CHUNK(edge, weights, 0u, columns, 0u, chunk)
                }
            )
        }
        start = segment_end;
    }

    barrier();
    if (tx < THREAD_ROWS) {
        uint row = ROW(own);
        tops[2u * row].x = l;
        precise float m_own = m[0];
        [[unroll]] for (uint r = 1u; r < THREAD_ROWS; ++r)
            if (r == own) m_own = m[r];
        if (row < n) {
            bool sees = tile_ranges[row].y < tile_ranges[row].z;
            uint at = 2u * (stats_base(sample_idx, head) + row0 + row);
            stats[at] = sees ? m_own : 0.0;
            stats[at + 1u] = sees ? hlx_div(1.0, l) : 0.0;
        }
    }
    barrier();
    EACH(r, THREAD_ROWS,
        if (ROW(r) < n) {
            EACH(v, 2u * CHUNKS,
                uint d = 4u * (tx + 8u * v);
                if (8u * v < UNITS * CHUNKS) store_o(OUTPUT_AT(r, d), d, sums[r][v]);
            )
        }
    )
    // A thread divides what it has stored. A loop with a division over the sums themselves is too long for a
    // driver to unroll: the sums would lie in memory, from the first key on.
    [[dont_unroll]] for (uint i = 0u; i < THREAD_ROWS * 2u * CHUNKS; ++i) {
        uint r = i / (2u * CHUNKS);
        uint v = i % (2u * CHUNKS);
        uint d = 4u * (tx + 8u * v);
        if (ROW(r) < n && 8u * v < UNITS * CHUNKS) {
            bool sees = tile_ranges[ROW(r)].y < tile_ranges[ROW(r)].z;
            precise float sum = tops[2u * ROW(r)].x;
            precise vec4 quotient = fetch_o(OUTPUT_AT(r, d), d);
            EACH(c, 4u, quotient[c] = sees ? hlx_pos0(hlx_div(quotient[c], sum)) : 0.0;)
            store_o(OUTPUT_AT(r, d), d, quotient);
        }
    }
}
