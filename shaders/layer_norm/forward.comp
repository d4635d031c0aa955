// Layer norm forward: y[r, c] = fma((x[r, c] - mean_r) * rstd_r, weight[c], bias[c])
//   mean_r = (sum_c x) / C, variance_r = (sum_c (x - mean_r)^2) / C, rstd_r = 1 / sqrt(variance_r + eps)
// x, y: [rows, C]; weight, bias: [C]; stats: [rows, 2] = (mean, rstd), kept for the backward.
// Both sums have the order of include/reduce.glsl; C is the push constant cols.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly buffer Y { float y[]; };
layout(set = 0, binding = 4) writeonly buffer Stats { float stats[]; };
layout(push_constant) uniform Push { uint rows; uint cols; float eps; } push;

void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
    precise float n = float(push.cols);

    precise vec4 lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_add(lanes[j], x[base + col]);
        }
    precise float mean = hlx_div(hlx_row_sum(lanes), n);

    lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) {
                precise float d = hlx_sub(x[base + col], mean);
                lanes[j] = hlx_add(lanes[j], hlx_mul(d, d));
            }
        }
    precise float variance = hlx_div(hlx_row_sum(lanes), n);
    precise float rstd = hlx_div(1.0, hlx_sqrt(hlx_add(variance, push.eps)));

    for (uint col = hlx_row_thread(); col < end; col += 32u)
        y[base + col] =
            hlx_fma(hlx_mul(hlx_sub(x[base + col], mean), rstd), weight[col], bias[col]);
    if (row < push.rows && hlx_row_thread() == 0u) {
        stats[2u * row] = mean;
        stats[2u * row + 1u] = rstd;
    }
}
