// Attention over ranges in 16 bits by matrices, dK and dV (half_matrices.glsl): rows are keys, and columns queries. stats:
// [B, H, T, 2] = (m, 1 / l); delta: [B, H, T]; dk, dv: [B, S, H / G, D].
// The weights of values, then those of keys.
#define WEIGHT_PLANES 2u
#include "half_matrices.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DOUnits { uvec4 d_o_units[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
layout(set = 0, binding = 8) readonly restrict buffer KeyRanges { uvec4 key_ranges[]; };
// The gradients of all operands, of which dk and dv lie at the places of k and v.
WRITE_ROWS(9, writeonly restrict, DKV, store, dkv, dkv_vectors)

// A block's queries: -m times the logarithm of e, 1 / l and delta.
shared vec4 column_facts[3u * COLS / 4u];
#define COLUMN_FACT(fact, column) column_facts[((fact) * COLS + (column)) / 4u][(column) % 4u]
#define FACTS_OF(fact, quad) column_facts[(fact) * (COLS / 4u) + (quad)]

void main() {
    uint key_heads = push.heads / push.group;
    // The first tiles of all heads, which most queries see if attention is causal, go first.
    if (!find_place((push.keys + ROWS - 1u) / ROWS, key_heads)) return;
    uint row0 = tile * ROWS + gl_SubgroupID * OWN_ROWS;
    uint n = row0 < push.keys ? min(OWN_ROWS, push.keys - row0) : 0u;
    uint first_row = keys_of(own_head * push.group) + min(row0, push.keys - 1u);
    uvec4 range[LANE_ROWS];
    EACH_ROW(r) range[r] = ROW_OF_LANE(r) < n ? key_ranges[sample_idx * push.keys + row0 + ROW_OF_LANE(r)] : uvec4(0u);
    uint first_position = ranges[sample_idx * push.queries].w;
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    find_blocks(range);
    Left held_k[HELD];
    Left held_v[HELD];
    HOLD(held_k, k_units, first_row)
    HOLD(held_v, v_units, first_row)
    Sums k_sums[DOWN * ACROSS];
    Sums v_sums[DOWN * ACROSS];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS; ++i) {
        k_sums[i] = Sums(0.0);
        v_sums[i] = Sums(0.0);
    }
    [[dont_unroll]] for (uint head = own_head * push.group; head < (own_head + 1u) * push.group; ++head) {
        uint first_query = stats_base(sample_idx, head);
        uvec4 queries[LOADS];
        uvec4 upstream[LOADS];
        FETCH(queries, q_units, first_query, first_column, push.queries)
        FETCH(upstream, d_o_units, first_query, first_column, push.queries)
        [[dont_unroll]] for (uint query0 = first_column; query0 < end_column; query0 += COLS) {
            barrier();
            PUT(queries, 0u)
            PUT(upstream, 1u)
            for (uint j = THREAD; j < COLS; j += THREADS) {
                uint query = first_query + min(query0 + j, push.queries - 1u);
                COLUMN_FACT(0u, j) = below_of(stats[2u * query]);
                COLUMN_FACT(1u, j) = stats[2u * query + 1u];
                COLUMN_FACT(2u, j) = delta[query];
            }
            barrier();
            FETCH(queries, q_units, first_query, query0 + COLS, push.queries)
            FETCH(upstream, d_o_units, first_query, query0 + COLS, push.queries)
            MULTIPLY_ROWS(held_k, 0u)
            subgroupBarrier();
            vec4 weights[LANE_ROWS * QUADS];
            vec4 slopes[LANE_ROWS * QUADS];
            EACH_ROW(r) EACH_QUAD(q) {
                vec4 four = score_quad(ROW_OF_LANE(r), QUAD(q));
                vec4 belows = FACTS_OF(0u, QUAD(q));
                vec4 inverses = FACTS_OF(1u, QUAD(q));
                vec4 slope = vec4(1.0);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float t;
                    precise float s = score(four[i], t);
                    four[i] = hlx_mul(weight_of(s, belows[i]), inverses[i]);
                    slope[i] = hlx_fma(-t, t, 1.0);
                }
                weights[r * QUADS + q] = four;
                if (CAPPED) slopes[r * QUADS + q] = slope;
            }
            subgroupBarrier();
            MULTIPLY_ROWS(held_v, 1u)
            subgroupBarrier();
            EACH_ROW(r) {
                uint columns = seen_columns(range[r], query0);
                uint place = row0 + ROW_OF_LANE(r) - range[r].x;
                EACH_QUAD(q) {
                    vec4 incoming = score_quad(ROW_OF_LANE(r), QUAD(q));
                    vec4 four = weights[r * QUADS + q];
                    vec4 slope = CAPPED ? slopes[r * QUADS + q] : vec4(1.0);
                    vec4 offsets = FACTS_OF(2u, QUAD(q));
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        bool sees = SEES(columns, q, i);
                        precise float p = four[i];
                        precise float dp = incoming[i];
                        precise float slanted = CAPPED ? hlx_mul(p, slope[i]) : p;
                        if (DROPPED) {
                            uint position = first_position + query0 + 4u * QUAD(q) + i;
                            bool kept = is_kept(draw4(key, head, position, place / 4u)[place % 4u]);
                            p = kept ? hlx_mul(p, push.factor) : 0.0;
                            dp = kept ? hlx_mul(dp, push.factor) : 0.0;
                        }
                        four[i] = sees ? p : 0.0;
                        slope[i] = sees ? hlx_mul(slanted, hlx_sub(dp, offsets[i])) : 0.0;
                    }
                    weights[r * QUADS + q] = four;
                    slopes[r * QUADS + q] = slope;
                }
            }
            subgroupBarrier();
            EACH_ROW(r) EACH_QUAD(q) {
                put_weights(0u, ROW_OF_LANE(r), QUAD(q), weights[r * QUADS + q]);
                put_weights(1u, ROW_OF_LANE(r), QUAD(q), slopes[r * QUADS + q]);
            }
            subgroupBarrier();
            ADD_PRODUCTS(v_sums, 0u, 1u)
            ADD_PRODUCTS(k_sums, 1u, 0u)
            subgroupBarrier();
        }
    }

    uint at_k = push.k_first + sample_idx * push.k_batch + own_head * push.k_head + row0 * push.k_position;
    uint at_v = push.v_first + sample_idx * push.v_batch + own_head * push.v_head + row0 * push.v_position;
    FINISH_RESULTS(k_sums, n, store(at_k + row * push.k_position + d, d, finished(four, push.scale));)
    FINISH_RESULTS(v_sums, n, store(at_v + row * push.v_position + d, d, finished(four, 1.0));)
}
