// Attention over ranges by matrices of integers, dK and dV (quantised.rs has the specification). do has two digits, the queries have
// two and one there; stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T]; dk, dv: [B, S, H / G, D].
// The weights of values with one digit, then those of keys with two.
#define DIGIT_PLANES 2u
// do with two digits, then the queries with one.
#define TRANSPOSED_PLANES 2u
#define STAGED_PLANES 2u
// The factors of a query, of its row of do and of the query with one digit, then its m, 1 / l and delta.
#define COLUMN_FACTS 9u
// The factors of a row's weights of values, then of keys.
#define ROW_FACTS 2u
// Blocks of queries count as their keys do; the first may begin before query 0.
#define BLOCK_OFFSET(column, origin) ((first_position + (column) - (origin)) % COLS)
uint first_position;
#include "integer_matrices.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DO { uint d_o[]; };
layout(set = 0, binding = 5) readonly restrict buffer DOUnits { uvec4 d_o_units[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
layout(set = 0, binding = 8) readonly restrict buffer KeyRanges { uvec4 key_ranges[]; };
layout(set = 0, binding = 9) readonly restrict buffer QNarrow { uint q_narrow[]; };
layout(set = 0, binding = 9) readonly restrict buffer QNarrowUnits { uvec4 q_narrow_units[]; };
// The gradients of all operands, of which dk and dv lie at the places of k and v.
WRITE_ROWS(10, writeonly restrict, DKV, store, dkv, dkv_vectors)

// The digits on their way that a block's weights are products with.
#define FETCH_BLOCK(first)                                                       \
    FETCH_TRANSPOSED(fetched_upper, d_o, first)                                      \
    FETCH_TRANSPOSED(fetched_lower, d_o, query_rows() + first)                       \
    FETCH_TRANSPOSED(fetched_q, q_narrow, first)

void main() {
    uint own_row = OWN_ROW;
    uint key_heads = push.heads / push.group;
    // The first tiles of all heads, which most queries see if attention is causal, go first.
    uint tiles = (push.keys + ROWS - 1u) / ROWS;
    if (!find_place(tiles, key_heads)) return;
    uint row0 = tile * ROWS;
    uint n = min(ROWS, push.keys - row0);
    uvec4 range = own_row < n ? key_ranges[sample_idx * push.keys + row0 + own_row] : uvec4(0u);
    uint first_row = keys_of(sample_idx, own_head * push.group) + row0;
    uint row = first_row + min(own_row, n - 1u);
    first_position = ranges[sample_idx * push.queries].w;
    uint plane = query_rows() * WORDS;
    vec2 of_key = FACTORS(k, key_rows() * WORDS, row);
    vec2 of_value = FACTORS(v, key_rows() * WORDS, row);
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    Left held_k[HELD(1u)];
    Left held_v[HELD(1u)];
    HOLD(held_k, 1u, k, first_row, 0u)
    HOLD(held_v, 1u, v, first_row, 0u)
    Sums k_sums[DOWN * ACROSS_CHUNK];
    Sums v_sums[DOWN * ACROSS_CHUNK];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS_CHUNK; ++i) {
        k_sums[i] = Sums(0);
        v_sums[i] = Sums(0);
    }
    for (uint head = own_head * push.group; head < (own_head + 1u) * push.group; ++head) {
        uint first_query = stats_base(sample_idx, head);
        for (uint start = 0u; start < n; start = segment_end) {
            find_segment(start, n, range);
            bool inside = own_row >= start && own_row < segment_end;
            int first_block = int(first_column);
            TRANSPOSED(fetched_q)
            TRANSPOSED(fetched_upper)
            TRANSPOSED(fetched_lower)
            FETCH_BLOCK(first_query + uint(max(first_block, 0)))
            ROWS_ON_THEIR_WAY(queries, 2u)
            ROWS_ON_THEIR_WAY(upstream, 2u)
            FETCH_ROWS(queries, q, 2u, first_query + uint(max(first_block, 0)), plane)
            [[dont_unroll]] for (int block = first_block; block < int(end_column); block += int(COLS)) {
                uint query0 = uint(max(block, 0));
                PUT_ROWS(queries, 2u)
                FETCH_ROWS(upstream, d_o, 2u, first_query + query0, plane)
                barrier();
                MULTIPLY_ROWS(held_k, k, 1u, first_row, 0u, 2u)
                for (uint j = THREAD; j < COLS; j += THREADS) {
                    uint query = first_query + min(query0 + j, push.queries - 1u);
                    vec2 of_query = FACTORS(q, 2u * plane, query);
                    vec2 of_upstream = FACTORS(d_o, 2u * plane, query);
                    vec2 of_narrow = FACTORS(q_narrow, plane, query);
                    COLUMN_FACT(0u, j) = of_query.x;
                    COLUMN_FACT(1u, j) = of_query.y;
                    COLUMN_FACT(2u, j) = of_upstream.x;
                    COLUMN_FACT(3u, j) = of_upstream.y;
                    COLUMN_FACT(4u, j) = of_narrow.x;
                    COLUMN_FACT(5u, j) = of_narrow.y;
                    COLUMN_FACT(6u, j) = stats[2u * query];
                    COLUMN_FACT(7u, j) = stats[2u * query + 1u];
                    COLUMN_FACT(8u, j) = delta[query];
                }
                barrier();
                PUT_ROWS(upstream, 2u)
                uint low = inside ? max(range.y, query0) - query0 : 0u;
                uint high = inside ? max(min(range.z, uint(block + int(COLS))), query0) - query0 : 0u;
                vec4 weights[OWN_QUADS];
                vec4 slopes[OWN_QUADS];
                EACH_OWN_QUAD(quad,
                    vec4 scores = got_quad(quad);
                    vec4 of_query_x = column_facts_of(0u, quad);
                    vec4 of_query_y = column_facts_of(1u, quad);
                    vec4 tops = column_facts_of(6u, quad);
                    vec4 inverses = column_facts_of(7u, quad);
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        precise float t;
                        precise float s = score(hlx_scaled_sum(scores[i], vec2(of_query_x[i], of_query_y[i]), of_key), t);
                        weights[own][i] = hlx_mul(exp_below(hlx_sub(s, tops[i])), inverses[i]);
                        slopes[own][i] = CAPPED ? hlx_fma(-t, t, 1.0) : 1.0;
                    }
                )
                barrier();
                MULTIPLY_ROWS(held_v, v, 1u, first_row, 0u, 2u)
                barrier();
                PUT_TRANSPOSED(0u, fetched_upper)
                PUT_TRANSPOSED(1u, fetched_lower)
                uint largest = 0u;
                uint largest_of_keys = 0u;
                // The slopes become the weights of keys.
                EACH_OWN_QUAD(quad,
                    vec4 incoming = got_quad(quad);
                    vec4 of_upstream_x = column_facts_of(2u, quad);
                    vec4 of_upstream_y = column_facts_of(3u, quad);
                    vec4 of_narrow_x = column_facts_of(4u, quad);
                    vec4 of_narrow_y = column_facts_of(5u, quad);
                    vec4 offsets = column_facts_of(8u, quad);
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        uint j = 4u * quad + i;
                        vec2 of_upstream = vec2(of_upstream_x[i], of_upstream_y[i]);
                        precise float p = weights[own][i];
                        precise float slanted = CAPPED ? hlx_mul(p, slopes[own][i]) : p;
                        precise float dp = hlx_scaled_sum(incoming[i], of_upstream, of_value);
                        if (DROPPED) {
                            uint place = own_row + row0 - range.x;
                            bool kept = is_kept(draw4(key, head, first_position + query0 + j, place / 4u)[place % 4u]);
                            p = kept ? hlx_mul(p, push.factor) : 0.0;
                            dp = kept ? hlx_mul(dp, push.factor) : 0.0;
                        }
                        precise float ds = hlx_mul(slanted, hlx_sub(dp, offsets[i]));
                        bool sees = j >= low && j < high;
                        weights[own][i] = sees ? folded(p, of_upstream) : 0.0;
                        slopes[own][i] = sees ? folded(ds, vec2(of_narrow_x[i], of_narrow_y[i])) : 0.0;
                        largest = max(largest, floatBitsToUint(weights[own][i]) & HLX_MAGNITUDE);
                        largest_of_keys = max(largest_of_keys, floatBitsToUint(slopes[own][i]) & HLX_MAGNITUDE);
                    }
                )
                quantise(weights, false, largest);
                barrier();
                ADD_PRODUCTS(v_sums, 1u, 2u, sum = hlx_add(sum, term);)
                barrier();
                PUT_TRANSPOSED(0u, fetched_q)
                FETCH_BLOCK(first_query + uint(block + int(COLS)))
                FETCH_ROWS(queries, q, 2u, first_query + uint(block + int(COLS)), plane)
                quantise(slopes, true, largest_of_keys);
                barrier();
                ADD_PRODUCTS(k_sums, 2u, 1u, sum = hlx_add(sum, term);)
                barrier();
            }
        }
    }

    uint at_k = push.k_first + sample_idx * push.k_batch + own_head * push.k_head + row0 * push.k_position;
    uint at_v = push.v_first + sample_idx * push.v_batch + own_head * push.v_head + row0 * push.v_position;
    FINISH_RESULTS(k_sums,
        if (of_row < n) {
            for (uint i = 0u; i < 4u; ++i) four[i] = hlx_mul(hlx_pos0(four[i]), push.scale);
            store(at_k + of_row * push.k_position + d, d, four);
        }
    )
    FINISH_RESULTS(v_sums,
        if (of_row < n) {
            for (uint i = 0u; i < 4u; ++i) four[i] = hlx_pos0(four[i]);
            store(at_v + of_row * push.v_position + d, d, four);
        }
    )
}
