// Softmax forward: y[r, c] = exp(x[r, c] - m_r) * (1 / s_r), m_r = max_c x, s_r = sum_c exp(x - m_r)
// x, y: [rows, cols]. The sum has the order of include/reduce.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;

void main() {
    uint row = hlx_row();
    uint cols = push.cols;
    // Rows past the end read nothing but take part in the barriers.
    uint end = row < push.rows ? cols : 0u;
    uint base = row * cols;

    precise vec4 lanes = vec4(HLX_LOWEST);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_max(lanes[j], x[base + col]);
        }
    precise float top = hlx_row_max(lanes);

    lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_add(lanes[j], hlx_exp(hlx_sub(x[base + col], top)));
        }
    precise float inverse = hlx_div(1.0, hlx_row_sum(lanes));

    for (uint col = hlx_row_thread(); col < end; col += 32u)
        y[base + col] = hlx_mul(hlx_exp(hlx_sub(x[base + col], top)), inverse);
}
