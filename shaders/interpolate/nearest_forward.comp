// Nearest interpolation: y[plane, oy, ox] = x[plane, source of oy, source of ox].
#include "places.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { uint y[]; };

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.count) return;
    uint row = at / push.output_width;
    uint plane = row / push.output_height;
    uint iy = source_of(axis_y(), row - plane * push.output_height);
    uint ix = source_of(axis_x(), at - row * push.output_width);
    y[at] = x[(plane * push.input_height + iy) * push.input_width + ix];
}
