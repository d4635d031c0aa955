// Attention over ranges in the integer arithmetic, forward (quantised.rs has the specification). o: [B, T, H, D]; stats:
// [B, H, T, 2] = (m, 1 / l); zeros where a query sees no key.
#define SUMS 1u
#define PAGES_SLOT 7
#include "integer.glsl"

layout(set = 0, binding = 5) writeonly restrict buffer O { float o[]; };
layout(set = 0, binding = 6) writeonly restrict buffer Stats { float stats[]; };

#define ROW_OF(j) min(block0 + (j), last_row)

void main() {
    OWN_QUERY
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    precise float m = uintBitsToFloat(0xff800000u);
    precise float l = 0.0;
    clear_sums();
    uint first_block = range.y - (range.y - min(range.x, range.y)) % COLS;
    [[dont_unroll]] for (uint key0 = first_block; key0 < range.z; key0 += COLS) {
        uint block0 = block_row(sample_idx, own_head, key0);
        uint last_row = block0 + push.keys - 1u - key0;
        precise float s[COLS];
        precise float top = uintBitsToFloat(0xff800000u);
        [[dont_unroll]] for (uint j = 0u; j < COLS; ++j) {
            uint column = key0 + j;
            s[j] = uintBitsToFloat(0xff800000u);
            if (column < range.y || column >= range.z) continue;
            int sum;
            SUM_ROWS(sum, q, row, plane, k, block0 + j)
            vec2 of_key = FACTORS(k, behind_keys, block0 + j);
            precise float t;
            s[j] = score(hlx_result_of_sum(float_of_sum(sum), of_row, of_key), t);
            top = hlx_max(top, s[j]);
        }
        MOVE_MAXIMUM(m, top)
        precise float halves[COLS];
        [[dont_unroll]] for (uint j = 0u; j < COLS; ++j) {
            uint column = key0 + j;
            bool sees = column >= range.y && column < range.z;
            s[j] = sees ? exp_below(hlx_sub(s[j], now)) : 0.0;
            halves[j] = s[j];
            if (!sees) continue;
            if (DROPPED) {
                uint place = column - range.x;
                bool kept = is_kept(draw4(key, own_head, range.w, place / 4u)[place % 4u]);
                s[j] = kept ? hlx_mul(s[j], push.factor) : 0.0;
            }
            s[j] = folded(s[j], FACTORS(v, behind_keys, block0 + j));
        }
        [[dont_unroll]] for (uint n = COLS / 2u; n > 0u; n /= 2u)
            [[dont_unroll]] for (uint j = 0u; j < n; ++j) halves[j] = hlx_add(halves[j], halves[j + n]);
        l = hlx_fma(l, correction, halves[0]);
        int integers[COLS];
        vec2 factors = quantise(s, true, integers);
        EACH_PRODUCT(integers, factors, ADD_WIDE, v, 0u, ROW_OF, chunk, SUM(0u, d) = hlx_fma(SUM(0u, d), correction, product);)
    }

    bool sees = range.y < range.z;
    uint at = o_base(sample_idx, own_head) + query * O_STRIDE + CHUNK * chunk;
    [[dont_unroll]] for (uint d = 0u; d < CHUNK && CHUNK * chunk + d < D; ++d)
        o[at + d] = sees ? hlx_pos0(hlx_div(SUM(0u, d), l)) : 0.0;
    if (chunk > 0u) return;
    stats[2u * row] = sees ? m : 0.0;
    stats[2u * row + 1u] = sees ? hlx_div(1.0, l) : 0.0;
}
