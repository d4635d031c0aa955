// Attention over ranges by matrices of integers, dQ (quantised.rs has the specification). do has two digits; stats: [B, H, T, 2] =
// (m, 1 / l); delta: [B, H, T]; dq: [B, T, H, D].
#define DIGIT_PLANES 2u
#define TRANSPOSED_PLANES 1u
#define STAGED_PLANES 1u
// The factors of a key and of a value.
#define COLUMN_FACTS 4u
// The factors of a row's weights.
#define ROW_FACTS 2u
#include "integer_matrices.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DO { uint d_o[]; };
layout(set = 0, binding = 5) readonly restrict buffer DOUnits { uvec4 d_o_units[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
// The gradients of all operands, of which dq lies at q's place.
WRITE_ROWS(8, writeonly restrict, DQ, store_dq, dq, dq_vectors)

void main() {
    OWN_QUERIES
    vec2 of_query = FACTORS(q, 2u * plane, row);
    vec2 of_upstream = FACTORS(d_o, 2u * plane, row);
    precise float m = stats[2u * row];
    precise float inverse = stats[2u * row + 1u];
    precise float offset = delta[row];
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    Left held_q[HELD(2u)];
    Left held_do[HELD(2u)];
    HOLD(held_q, 2u, q, first_row, plane)
    HOLD(held_do, 2u, d_o, first_row, plane)
    Sums sums[DOWN * ACROSS_CHUNK];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS_CHUNK; ++i) sums[i] = Sums(0);
    for (uint start = 0u; start < n; start = segment_end) {
        find_segment(start, n, range);
        bool inside = own_row >= start && own_row < segment_end;
        TRANSPOSED(fetched)
        FETCH_TRANSPOSED(fetched, k, first_key + first_column)
        ROWS_ON_THEIR_WAY(keys, 1u)
        ROWS_ON_THEIR_WAY(values, 1u)
        FETCH_ROWS(keys, k, 1u, first_key + first_column, 0u)
        [[dont_unroll]] for (uint key0 = first_column; key0 < end_column; key0 += COLS) {
            PUT_ROWS(keys, 1u)
            FETCH_ROWS(values, v, 1u, first_key + key0, 0u)
            barrier();
            MULTIPLY_ROWS(held_q, q, 2u, first_row, plane, 1u)
            PUT_FACTS_OF_KEYS(first_key + key0)
            barrier();
            PUT_ROWS(values, 1u)
            SEEN_KEYS
            vec4 weights[OWN_QUADS];
            EACH_OWN_QUAD(quad,
                vec4 scores = got_quad(quad);
                vec4 of_key_x = column_facts_of(0u, quad);
                vec4 of_key_y = column_facts_of(1u, quad);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float t;
                    precise float s = score(hlx_scaled_sum(scores[i], of_query, vec2(of_key_x[i], of_key_y[i])), t);
                    precise float p = hlx_mul(exp_below(hlx_sub(s, m)), inverse);
                    if (CAPPED) p = hlx_mul(p, hlx_fma(-t, t, 1.0));
                    weights[own][i] = p;
                }
            )
            barrier();
            MULTIPLY_ROWS(held_do, d_o, 2u, first_row, plane, 1u)
            barrier();
            PUT_TRANSPOSED(0u, fetched)
            FETCH_TRANSPOSED(fetched, k, first_key + key0 + COLS)
            FETCH_ROWS(keys, k, 1u, first_key + key0 + COLS, 0u)
            uint largest = 0u;
            EACH_OWN_QUAD(quad,
                uvec4 words = uvec4(0u);
                if (DROPPED) words = draw4(key, own_head, range.w, (key0 - range.x) / 4u + quad);
                vec4 incoming = got_quad(quad);
                vec4 of_key_x = column_facts_of(0u, quad);
                vec4 of_key_y = column_facts_of(1u, quad);
                vec4 of_value_x = column_facts_of(2u, quad);
                vec4 of_value_y = column_facts_of(3u, quad);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float dp = hlx_scaled_sum(incoming[i], of_upstream, vec2(of_value_x[i], of_value_y[i]));
                    if (DROPPED) dp = is_kept(words[i]) ? hlx_mul(dp, push.factor) : 0.0;
                    precise float ds = hlx_mul(weights[own][i], hlx_sub(dp, offset));
                    bool sees = 4u * quad + i >= low && 4u * quad + i < high;
                    weights[own][i] = sees ? folded(ds, vec2(of_key_x[i], of_key_y[i])) : 0.0;
                    largest = max(largest, floatBitsToUint(weights[own][i]) & HLX_MAGNITUDE);
                }
            )
            quantise(weights, true, largest);
            barrier();
            ADD_PRODUCTS(sums, 2u, 1u, sum = hlx_add(sum, term);)
            barrier();
        }
    }

    FINISH_RESULTS(sums,
        if (of_row < n) {
            for (uint i = 0u; i < 4u; ++i) four[i] = hlx_mul(hlx_pos0(four[i]), push.scale);
            store_dq(q_base(sample_idx, own_head) + (row0 + of_row) * push.q_position + d, d, four);
        }
    )
}
