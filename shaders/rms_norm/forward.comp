// RMS norm forward: y[r, c] = (x[r, c] * rstd_r) * weight[c], rstd_r = 1 / sqrt((sum_c x^2) / C + eps)
// x, y: [rows, C]; weight: [C]; stats: [rows] = rstd, kept for the backward.
// The sum has the order of include/reduce.glsl; C is the push constant cols.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };
layout(set = 0, binding = 3) writeonly buffer Stats { float stats[]; };
layout(push_constant) uniform Push { uint rows; uint cols; float eps; } push;

#include "statistics.glsl"

void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
    precise float rstd = statistics(base, end);
    for (uint col = hlx_row_thread(); col < end; col += 32u)
        y[base + col] = hlx_mul(hlx_mul(x[base + col], rstd), weight[col]);
    if (row < push.rows && hlx_row_thread() == 0u) stats[row] = rstd;
}
