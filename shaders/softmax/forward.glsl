// Softmax forward: y[r, c] = exp(x[r, c] - m_r) * (1 / s_r), m_r = max_c x, s_r = sum_c exp(x - m_r)
// x, y: [rows, cols]. The sum has the order of include/reduce.glsl.
#define HLX_REDUCTIONS 2
#include "../include/row.glsl"

layout(set = 0, binding = 0) readonly RESTRICT buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly RESTRICT buffer Y { float y[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;

#ifdef HELD
void main() {
    uint base = hlx_row(push.rows) * COLS;
    precise float v[HLX_HELD];
    HLX_EACH(i) {
        v[i] = HLX_LOWEST;
        if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
    }
    // A NaN may get lost here, but not in the sum, which makes the whole row NaN.
    HLX_START(tops, HLX_LOWEST)
    HLX_EACH(i) tops[HLX_LANE(i)] = tops[HLX_LANE(i)] > v[i] ? tops[HLX_LANE(i)] : v[i];
    precise float top = hlx_reduce(tops, 0u, true);

    HLX_START(lanes, 0.0)
    HLX_EACH(i) {
        v[i] = hlx_exp(hlx_sub(v[i], top));
        if (hlx_has(i)) lanes[HLX_LANE(i)] = hlx_add(lanes[HLX_LANE(i)], v[i]);
    }
    precise float inverse = hlx_div(1.0, hlx_reduce(lanes, 1u, false));
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i)) y[base + hlx_col(i)] = hlx_mul(v[i], inverse);
}
#else
void main() {
    uint row = hlx_row();
    uint cols = push.cols;
    // Rows past the end read nothing but take part in the barriers.
    uint end = row < push.rows ? cols : 0u;
    uint base = row * cols;

    precise vec4 lanes = vec4(HLX_LOWEST);
    HLX_EACH_LANE(col, end, lanes[j] = hlx_max(lanes[j], x[base + col]);)
    precise float top = hlx_row_max(lanes);

    lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, lanes[j] = hlx_add(lanes[j], hlx_exp(hlx_sub(x[base + col], top)));)
    precise float inverse = hlx_div(1.0, hlx_row_sum(lanes));

    for (uint col = hlx_row_thread(); col < end; col += 32u)
        y[base + col] = hlx_mul(hlx_exp(hlx_sub(x[base + col], top)), inverse);
}
#endif
