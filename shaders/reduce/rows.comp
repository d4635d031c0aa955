// Reduces each row of x [rows, cols] to one value: sum, sum of squares, or largest element.
//
// The lanes and the tree are those of reduce.glsl. x holds push.count elements; the last row may
// be shorter than the others (the pieces of a flat buffer). With ROOT the result is the square
// root of the sum.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(constant_id = 0) const uint OPERATION = 0u;  // 0 sum, 1 sum of squares, 2 largest
layout(constant_id = 1) const uint ROOT = 0u;

layout(push_constant) uniform Push {
    uint rows;
    uint cols;
    uint count;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Result { float result[]; };

float join(float lane, float value) {
    if (OPERATION == 0u) return hlx_add(lane, value);
    if (OPERATION == 1u) return hlx_add(lane, hlx_mul(value, value));
    return hlx_max(lane, value);
}

void main() {
    uint row = hlx_row();
    uint begin = row * push.cols;
    uint cols = row < push.rows ? min(push.cols, push.count - begin) : 0u;
    precise vec4 lanes = vec4(OPERATION == 2u ? HLX_LOWEST : 0.0);
    uint first = hlx_row_thread();
    for (; first + 96u < cols; first += HLX_LANES) {
        precise vec4 values = vec4(x[begin + first], x[begin + first + 32u],
                                   x[begin + first + 64u], x[begin + first + 96u]);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) lanes[j] = join(lanes[j], values[j]);
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (first + 32u * j < cols) lanes[j] = join(lanes[j], x[begin + first + 32u * j]);
    precise float total = 0.0;
    if (OPERATION == 2u) total = hlx_row_max(lanes);
    else total = hlx_row_sum(lanes);
    if (ROOT != 0u) total = hlx_sqrt(total);
    if (row < push.rows && hlx_row_thread() == 0u) result[row] = total;
}
