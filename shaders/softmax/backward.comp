// Softmax backward: dx[r, c] = y[r, c] * (dy[r, c] - sum_k y[r, k] * dy[r, k])
// y, dy, dx: [rows, cols]. The sum has the order of include/reduce.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(set = 0, binding = 0) readonly buffer Y { float y[]; };
layout(set = 0, binding = 1) readonly buffer DY { float dy[]; };
layout(set = 0, binding = 2) writeonly buffer DX { float dx[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;

void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;

    precise vec4 lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_add(lanes[j], hlx_mul(y[base + col], dy[base + col]));
        }
    precise float inner = hlx_row_sum(lanes);

    for (uint col = hlx_row_thread(); col < end; col += 32u)
        dx[base + col] = hlx_mul(y[base + col], hlx_sub(dy[base + col], inner));
}
