// Attention over ranges in 16 bits by matrices, dQ (half_matrices.glsl). stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T];
// dq: [B, T, H, D].
#define WEIGHT_PLANES 1u
#include "half_matrices.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DOUnits { uvec4 d_o_units[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
// The gradients of all operands, of which dq lies at q's place.
WRITE_ROWS(8, writeonly restrict, DQ, store_dq, dq, dq_vectors)

void main() {
    OWN_QUERIES
    Left held_q[HELD];
    Left held_do[HELD];
    HOLD(held_q, q_units, first_row)
    HOLD(held_do, d_o_units, first_row)
    precise float below[LANE_ROWS];
    precise float inverse[LANE_ROWS];
    precise float offset[LANE_ROWS];
    EACH_ROW(r) {
        uint row = first_row + min(ROW_OF_LANE(r), max(n, 1u) - 1u);
        below[r] = below_of(stats[2u * row]);
        inverse[r] = stats[2u * row + 1u];
        offset[r] = delta[row];
    }
    Sums sums[DOWN * ACROSS];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS; ++i) sums[i] = Sums(0.0);
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
        MULTIPLY_ROWS(held_q, 0u)
        subgroupBarrier();
        vec4 weights[LANE_ROWS * QUADS];
        EACH_ROW(r) EACH_QUAD(q) {
            vec4 four = score_quad(ROW_OF_LANE(r), QUAD(q));
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                precise float t;
                precise float s = score(four[i], t);
                precise float p = hlx_mul(weight_of(s, below[r]), inverse[r]);
                four[i] = CAPPED ? hlx_mul(p, hlx_fma(-t, t, 1.0)) : p;
            }
            weights[r * QUADS + q] = four;
        }
        subgroupBarrier();
        MULTIPLY_ROWS(held_do, 1u)
        subgroupBarrier();
        EACH_ROW(r) {
            uint columns = seen_columns(range[r], key0);
            EACH_QUAD(q) {
                vec4 incoming = score_quad(ROW_OF_LANE(r), QUAD(q));
                vec4 four = weights[r * QUADS + q];
                bvec4 kept = bvec4(true);
                if (DROPPED) kept = kept_keys(key, own_head, range[r].w, key0 + 4u * QUAD(q) - range[r].x);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    precise float dp = incoming[i];
                    if (DROPPED) dp = kept[i] ? hlx_mul(dp, push.factor) : 0.0;
                    four[i] = SEES(columns, q, i) ? hlx_mul(four[i], hlx_sub(dp, offset[r])) : 0.0;
                }
                weights[r * QUADS + q] = four;
            }
        }
        subgroupBarrier();
        EACH_ROW(r) EACH_QUAD(q) put_weights(0u, ROW_OF_LANE(r), QUAD(q), weights[r * QUADS + q]);
        subgroupBarrier();
        ADD_PRODUCTS(sums, 0u, 0u)
        subgroupBarrier();
    }

    FINISH_RESULTS(sums, n,
        store_dq(q_base(sample_idx, own_head) + (row0 + row) * push.q_position + d, d, finished(four, push.scale));
    )
}
