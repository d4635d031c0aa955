// Average pooling: y[plane, oy, ox] = sum of the window / divisor; the sum is a chain of additions
// in row-major order from +0, in which -0 becomes +0 at the end.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/math.glsl"
#include "average.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { float y[]; };

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.count) return;
    uint row = at / push.output_width;
    uint ox = at - row * push.output_width;
    uint plane = row / push.output_height;
    uint oy = row - plane * push.output_height;
    uvec2 rows = window_of(axis_y(), oy);
    uvec2 columns = window_of(axis_x(), ox);
    precise float sum = 0.0;
    for (uint iy = rows.x; iy < rows.y; ++iy) {
        uint first = (plane * push.input_height + iy) * push.input_width;
        for (uint ix = columns.x; ix < columns.y; ++ix) sum = hlx_add(sum, x[first + ix]);
    }
    y[at] = hlx_div(hlx_pos0(sum), divisor_of(oy, ox));
}
