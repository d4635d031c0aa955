// RMS norm backward, input: with n = x * rstd and g = dy * weight,
//   dx[r, c] = rstd_r * (g[r, c] - n[r, c] * b_r), b_r = (sum_c g n) / C
// x, dy, dx: [rows, C]; weight: [C]; stats: [rows] = rstd.
// With RESIDUAL, dx is that gradient on top of another that has reached x: residual + the above.
// The sum has the order of include/reduce.glsl; C is the push constant cols.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(constant_id = 4) const uint RESIDUAL = 0u;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 3) readonly buffer DY { float dy[]; };
layout(set = 0, binding = 4) readonly buffer Residual { float residual[]; };
layout(set = 0, binding = 5) writeonly buffer DX { float dx[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;

void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
    precise float rstd = row < push.rows ? stats[row] : 0.0;
    precise vec4 lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) {
                precise float g = hlx_mul(dy[base + col], weight[col]);
                lanes[j] = hlx_add(lanes[j], hlx_mul(g, hlx_mul(x[base + col], rstd)));
            }
        }
    precise float b = hlx_div(hlx_row_sum(lanes), float(push.cols));
    for (uint col = hlx_row_thread(); col < end; col += 32u) {
        precise float g = hlx_mul(dy[base + col], weight[col]);
        precise float normal = hlx_mul(x[base + col], rstd);
        precise float value = hlx_mul(rstd, hlx_sub(g, hlx_mul(normal, b)));
        if (RESIDUAL != 0u) value = hlx_add(residual[base + col], value);
        dx[base + col] = value;
    }
}
