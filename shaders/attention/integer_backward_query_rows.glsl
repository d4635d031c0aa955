// Attention over ranges in the integer arithmetic, dQ (quantised.rs has the specification). do has two digits; stats: [B, H, T, 2] =
// (m, 1 / l); delta: [B, H, T]; dq: [B, T, H, D].
#define SUMS 1u
#include "integer.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DO { uint d_o[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
// The gradients of all operands, of which dq lies at q's place.
layout(set = 0, binding = 8) writeonly restrict buffer DQ { float dq[]; };

#define ROW_OF(j) min(first_key + key0 + (j), last_key)

void main() {
    OWN_QUERY
    vec2 of_upstream = FACTORS(d_o, 2u * plane, row);
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    clear_sums();
    uint first_block = range.y - (range.y - min(range.x, range.y)) % COLS;
    [[dont_unroll]] for (uint key0 = first_block; key0 < range.z; key0 += COLS) {
        precise float u[COLS];
        [[dont_unroll]] for (uint j = 0u; j < COLS; ++j) {
            uint column = key0 + j;
            u[j] = 0.0;
            if (column < range.y || column >= range.z) continue;
            uint key_row = first_key + column;
            int sum;
            SUM_ROWS(sum, q, row, plane, k, key_row)
            vec2 of_key = FACTORS(k, behind_keys, key_row);
            precise float t;
            precise float s = score(hlx_result_of_sum(float_of_sum(sum), of_row, of_key), t);
            precise float p = hlx_mul(exp_below(hlx_sub(s, stats[2u * row])), stats[2u * row + 1u]);
            if (CAPPED) p = hlx_mul(p, hlx_fma(-t, t, 1.0));
            SUM_ROWS(sum, d_o, row, plane, v, key_row)
            vec2 of_value = FACTORS(v, behind_keys, key_row);
            precise float dp = hlx_result_of_sum(float_of_sum(sum), of_upstream, of_value);
            if (DROPPED) {
                uint place = column - range.x;
                bool kept = is_kept(draw4(key, own_head, range.w, place / 4u)[place % 4u]);
                dp = kept ? hlx_mul(dp, push.factor) : 0.0;
            }
            u[j] = folded(hlx_mul(p, hlx_sub(dp, delta[row])), of_key);
        }
        int integers[COLS];
        vec2 factors = quantise(u, true, integers);
        EACH_PRODUCT(integers, factors, ADD_WIDE, k, 0u, ROW_OF, chunk, SUM(0u, d) = hlx_add(SUM(0u, d), product);)
    }

    uint at = q_base(sample_idx, own_head) + query * push.q_position + CHUNK * chunk;
    [[dont_unroll]] for (uint d = 0u; d < CHUNK && CHUNK * chunk + d < D; ++d)
        dq[at + d] = hlx_mul(hlx_pos0(SUM(0u, d)), push.scale);
}
