// The gradient of average pooling: dx[plane, iy, ix] = sum of dy[plane, oy, ox] / divisor over the
// windows that see the element, a chain of additions in row-major order from +0; then -0 becomes +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/math.glsl"
#include "average.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Dy { float dy[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Dx { float dx[]; };

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.count) return;
    uint row = at / push.input_width;
    uint ix = at - row * push.input_width;
    uint plane = row / push.input_height;
    uint iy = row - plane * push.input_height;
    uvec2 rows = windows_over(axis_y(), iy);
    uvec2 columns = windows_over(axis_x(), ix);
    precise float sum = 0.0;
    for (uint oy = rows.x; oy < rows.y; ++oy) {
        uint first = (plane * push.output_height + oy) * push.output_width;
        for (uint ox = columns.x; ox < columns.y; ++ox)
            sum = hlx_add(sum, hlx_div(dy[first + ox], divisor_of(oy, ox)));
    }
    dx[at] = hlx_pos0(sum);
}
