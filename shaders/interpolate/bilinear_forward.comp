// Bilinear interpolation: with weights (l, r) of the left and right, (t, b) of the upper and lower
// input, y = fma(b, fma(r, x11, l x10), t fma(r, x01, l x00)).
#include "places.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { float y[]; };

float along_row(uint first, Between columns) {
    precise float left = hlx_mul(columns.weight.x, x[first + columns.source.x]);
    return hlx_fma(columns.weight.y, x[first + columns.source.y], left);
}

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.count) return;
    uint row = at / push.output_width;
    uint plane = row / push.output_height;
    Between rows = between(axis_y(), row - plane * push.output_height);
    Between columns = between(axis_x(), at - row * push.output_width);
    uvec2 first = (plane * push.input_height + rows.source) * push.input_width;
    precise float upper = hlx_mul(rows.weight.x, along_row(first.x, columns));
    y[at] = hlx_fma(rows.weight.y, along_row(first.y, columns), upper);
}
