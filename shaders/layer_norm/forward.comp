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

#include "statistics.glsl"

void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
    precise vec2 found = statistics(base, end);
    for (uint col = hlx_row_thread(); col < end; col += 32u)
        y[base + col] = hlx_fma(hlx_mul(hlx_sub(x[base + col], found.x), found.y), weight[col], bias[col]);
    if (row < push.rows && hlx_row_thread() == 0u) {
        stats[2u * row] = found.x;
        stats[2u * row + 1u] = found.y;
    }
}
