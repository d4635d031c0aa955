// Attention over ranges in 16 bits by matrices, forward (half_matrices.glsl). o: [B, T, H, D]; stats: [B, H, T, 2] = (m, 1 / l);
// zeros where a query sees no key.
#define WEIGHT_PLANES 1u
#include "half_matrices.glsl"

WRITE_ROWS(5, writeonly restrict, O, store_o, o, o_vectors)
layout(set = 0, binding = 6) writeonly restrict buffer Stats { float stats[]; };

void main() {
    OWN_QUERIES
    Left held[HELD];
    HOLD(held, q_units, first_row)
    Sums sums[DOWN * ACROSS];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS; ++i) sums[i] = Sums(0.0);
    precise float m[LANE_ROWS];
    precise float l[LANE_ROWS];
    EACH_ROW(r) {
        m[r] = uintBitsToFloat(0xff800000u);
        l[r] = 0.0;
    }
    uvec4 keys[LOADS];
    uvec4 values[LOADS];
    FETCH(keys, k_units, first_key, first_column, push.keys)
    FETCH(values, v_units, first_key, first_column, push.keys)
    [[dont_unroll]] for (uint key0 = first_column; key0 < end_column; key0 += COLS) {
        barrier();
        PUT(keys, 0u)
        PUT(values, 1u)
        barrier();
        FETCH(keys, k_units, first_key, key0 + COLS, push.keys)
        FETCH(values, v_units, first_key, key0 + COLS, push.keys)
        MULTIPLY_ROWS(held, 0u)
        subgroupBarrier();
        vec4 weights[LANE_ROWS * QUADS];
        EACH_ROW(r) {
            uint columns = seen_columns(range[r], key0);
            bool sees_any = range[r].y < key0 + COLS && range[r].z > key0;
            precise float top = uintBitsToFloat(0xff800000u);
            EACH_QUAD(q) {
                vec4 four = score_quad(ROW_OF_LANE(r), QUAD(q));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float t;
                    precise float s = score(four[i], t);
                    four[i] = SEES(columns, q, i) ? s : uintBitsToFloat(0xff800000u);
                    // (A NaN is in the weights.)
                    top = four[i] > top ? four[i] : top;
                }
                weights[r * QUADS + q] = four;
            }
            JOIN_SHARES(top, other > top ? other : top)
            precise float now = sees_any ? (top > m[r] ? top : m[r]) : m[r];
            precise float below = below_of(now);
            precise float correction = sees_any ? weight_of(m[r], below) : 1.0;
            precise float sum = 0.0;
            EACH_QUAD(q) {
                vec4 four = weights[r * QUADS + q];
                bvec4 kept = bvec4(true);
                if (DROPPED) kept = kept_keys(key, own_head, range[r].w, key0 + 4u * QUAD(q) - range[r].x);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float p = SEES(columns, q, i) ? weight_of(four[i], below) : 0.0;
                    sum = hlx_add(sum, p);
                    four[i] = !DROPPED ? p : kept[i] ? hlx_mul(p, push.factor) : 0.0;
                }
                weights[r * QUADS + q] = four;
            }
            JOIN_SHARES(sum, hlx_add(sum, other))
            l[r] = hlx_fma(l[r], correction, sum);
            m[r] = now;
            row_facts[gl_SubgroupID * OWN_ROWS + ROW_OF_LANE(r)] = correction;
        }
        subgroupBarrier();
        EACH_ROW(r) EACH_QUAD(q) put_weights(0u, ROW_OF_LANE(r), QUAD(q), weights[r * QUADS + q]);
        subgroupBarrier();
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
            Sums corrections;
            coopMatLoad(corrections, row_facts, gl_SubgroupID * OWN_ROWS + i * SIDE_M, 0u,
                        gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint j = 0u; j < ACROSS; ++j)
                [[unroll]] for (uint e = 0u; e < corrections.length(); ++e)
                    sums[i * ACROSS + j][e] = hlx_mul(sums[i * ACROSS + j][e], corrections[e]);
        }
        ADD_PRODUCTS(sums, 0u, 1u)
        subgroupBarrier();
    }

    EACH_ROW(r) row_facts[gl_SubgroupID * OWN_ROWS + ROW_OF_LANE(r)] = l[r];
    FINISH_RESULTS(sums, n,
        precise float its_l = row_facts[gl_SubgroupID * OWN_ROWS + row];
        // (A row that sees a key has an exp(0), or a NaN.)
        [[unroll]] for (uint i = 0u; i < 4u; ++i) four[i] = its_l == 0.0 ? 0.0 : hlx_pos0(hlx_div(four[i], its_l));
        store_o(o_base(sample_idx, own_head) + (row0 + row) * O_STRIDE + d, d, four);
    )
    EACH_ROW(r) if (SHARE == 0u && ROW_OF_LANE(r) < n) {
        uint row = first_row + ROW_OF_LANE(r);
        bool sees = range[r].y < range[r].z;
        stats[2u * row] = sees ? m[r] : 0.0;
        stats[2u * row + 1u] = sees ? hlx_div(1.0, l[r]) : 0.0;
    }
}
