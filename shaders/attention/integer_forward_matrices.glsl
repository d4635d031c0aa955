// Attention over ranges by matrices of integers, forward (quantised.rs has the specification). o: [B, T, H, D]; stats:
// [B, H, T, 2] = (m, 1 / l); zeros where a query sees no key.
#define DIGIT_PLANES 2u
#define TRANSPOSED_PLANES 1u
#define STAGED_PLANES 1u
// The factors of a key and of a value.
#define COLUMN_FACTS 4u
// The factors of a row's weights, and its correction; at the end its l.
#define ROW_FACTS 3u
#define CORRECTION 2u
#define PAGES_SLOT 7
#include "integer_matrices.glsl"

WRITE_ROWS(5, writeonly restrict, O, store_o, o, o_vectors)
layout(set = 0, binding = 6) writeonly restrict buffer Stats { float stats[]; };

// The sum of the row by halves: of columns 16 apart, then of those 8, 4, 2 and 1 apart.
float sum_by_halves() {
    precise vec4 sums = vec4(0.0);
    [[dont_unroll]] for (uint half_quad = 0u; half_quad < 2u; ++half_quad) {
        vec4 v[4];
        [[unroll]] for (uint k = 0u; k < 4u; ++k) v[k] = got_quad(half_quad + 2u * k);
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            precise float sum = hlx_add(hlx_add(v[0][i], v[2][i]), hlx_add(v[1][i], v[3][i]));
            sums[i] = half_quad == 0u ? sum : hlx_add(sums[i], sum);
        }
    }
    return hlx_add(hlx_add(sums.x, sums.z), hlx_add(sums.y, sums.w));
}

void main() {
    OWN_QUERIES
    vec2 of_row = FACTORS(q, 2u * plane, row);
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    Left held[HELD(2u)];
    HOLD(held, 2u, q, first_row, plane)
    precise float m = uintBitsToFloat(0xff800000u);
    precise float l = 0.0;
    Sums sums[DOWN * ACROSS_CHUNK];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS_CHUNK; ++i) sums[i] = Sums(0);
    for (uint start = 0u; start < n; start = segment_end) {
        find_segment(start, n, range);
        bool inside = own_row >= start && own_row < segment_end;
        uint next_block = block_row(sample_idx, own_head, first_column);
        TRANSPOSED(fetched)
        FETCH_TRANSPOSED(fetched, v, next_block)
        ROWS_ON_THEIR_WAY(keys, 1u)
        FETCH_ROWS(keys, k, 1u, next_block, 0u)
        [[dont_unroll]] for (uint key0 = first_column; key0 < end_column; key0 += COLS) {
            uint block0 = next_block;
            next_block = block_row(sample_idx, own_head, key0 + COLS);
            PUT_ROWS(keys, 1u)
            barrier();
            MULTIPLY_ROWS(held, q, 2u, first_row, plane, 1u)
            PUT_FACTS_OF_KEYS(block0)
            barrier();
            PUT_TRANSPOSED(0u, fetched)
            FETCH_TRANSPOSED(fetched, v, next_block)
            FETCH_ROWS(keys, k, 1u, next_block, 0u)
            SEEN_KEYS
            bool sees_any = low < high;
            precise float top = uintBitsToFloat(0xff800000u);
            vec4 scores[OWN_QUADS];
            EACH_OWN_QUAD(quad,
                vec4 four = got_quad(quad);
                vec4 of_key_x = column_facts_of(0u, quad);
                vec4 of_key_y = column_facts_of(1u, quad);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float t;
                    precise float s = score(hlx_scaled_sum(four[i], of_row, vec2(of_key_x[i], of_key_y[i])), t);
                    bool sees = 4u * quad + i >= low && 4u * quad + i < high;
                    scores[own][i] = sees ? s : uintBitsToFloat(0xff800000u);
                    top = hlx_max(top, scores[own][i]);
                }
            )
            share(floatBitsToUint(top));
            subgroupBarrier();
            for (uint of_share = 0u; of_share < SHARES; ++of_share)
                top = hlx_max(top, uintBitsToFloat(shared_fact(of_share)));
            subgroupBarrier();
            precise float now = sees_any ? hlx_max(m, hlx_pos0(top)) : m;
            precise float correction = sees_any ? exp_below(hlx_sub(m, now)) : 1.0;
            // A maximum that is not finite makes NaN of the row, and of its weights what may be.
            bool is_finite = (floatBitsToUint(now) & HLX_MAGNITUDE) < HLX_INFINITY;
            if (sees_any && !is_finite) correction = uintBitsToFloat(HLX_NAN);
            m = now;
            uint largest = 0u;
            vec4 weights[OWN_QUADS];
            EACH_OWN_QUAD(quad,
                uvec4 words = uvec4(0u);
                if (DROPPED) words = draw4(key, own_head, range.w, (key0 - range.x) / 4u + quad);
                vec4 of_value_x = column_facts_of(2u, quad);
                vec4 of_value_y = column_facts_of(3u, quad);
                vec4 halves;
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    bool sees = 4u * quad + i >= low && 4u * quad + i < high;
                    precise float p = exp_of_finite(hlx_sub(scores[own][i], now));
                    halves[i] = sees ? p : 0.0;
                    if (DROPPED) p = is_kept(words[i]) ? hlx_mul(p, push.factor) : 0.0;
                    p = folded(p, vec2(of_value_x[i], of_value_y[i]));
                    weights[own][i] = sees ? p : 0.0;
                    largest = max(largest, floatBitsToUint(weights[own][i]) & HLX_MAGNITUDE);
                }
                put_quad(quad, halves);
            )
            quantise(weights, true, largest);
            if (OWN_SHARE == 0u) {
                put_row_fact(CORRECTION, correction);
                l = hlx_fma(l, correction, sum_by_halves());
            }
            barrier();
            Sums corrections[DOWN];
            [[unroll]] for (uint i = 0u; i < DOWN; ++i) LOAD_ROW_FACT(corrections[i], i, CORRECTION)
            ADD_PRODUCTS(sums, 2u, 1u, sum = hlx_fma(sum, intBitsToFloat(corrections[i][e]), term);)
            barrier();
        }
    }

    if (OWN_SHARE == 0u) put_row_fact(CORRECTION, l);
    FINISH_RESULTS(sums,
        if (of_row < n) {
            // A row that sees a key has an exp(0), or a NaN.
            precise float its_l = intBitsToFloat(row_facts[CORRECTION * ROWS + of_row]);
            bool sees = floatBitsToUint(its_l) != 0u;
            for (uint i = 0u; i < 4u; ++i) four[i] = sees ? hlx_pos0(hlx_div(four[i], its_l)) : 0.0;
            store_o(o_base(sample_idx, own_head) + (row0 + of_row) * O_STRIDE + d, d, four);
        }
    )
    if (OWN_SHARE > 0u || own_row >= n || chunk > 0u) return;
    bool sees = range.y < range.z;
    stats[2u * row] = sees ? m : 0.0;
    stats[2u * row + 1u] = sees ? hlx_div(1.0, l) : 0.0;
}
