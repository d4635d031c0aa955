// The start-up probe's reduction: out[row] = sum of x[row, 0..cols], in the order that
// docs/numerics.md states for rows. Values of very different size show any other order.
#version 450
#include "../include/reduce.glsl"

layout(push_constant) uniform Push { uint rows; uint cols; } push;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { float result[]; };

void main() {
    uint row = hlx_row();
    precise vec4 lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < push.cols; first += HLX_LANES) {
        for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (row < push.rows && col < push.cols) {
                lanes[j] = hlx_add(lanes[j], x[row * push.cols + col]);
            }
        }
    }
    precise float total = hlx_row_sum(lanes);
    if (row < push.rows && hlx_row_thread() == 0u) result[row] = total;
}
