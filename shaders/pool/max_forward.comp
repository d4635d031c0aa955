// Maximum pooling: y[plane, oy, ox] is the window's largest element, and its place in the plane. Of
// equal ones (zeros of either sign are) the first is taken; NaN is larger than all, the last NaN's
// place is kept. A window that sees no element gives minus infinity and the place 2^32 - 1.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "windows.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { float y[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Indices { uint indices[]; };

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.count) return;
    uint row = at / push.output_width;
    uint ox = at - row * push.output_width;
    uint plane = row / push.output_height;
    uint oy = row - plane * push.output_height;
    uvec2 rows = window_of(axis_y(), oy);
    uvec2 columns = window_of(axis_x(), ox);
    uint first = plane * push.input_height * push.input_width;
    uint index = 0xffffffffu;
    precise float largest = uintBitsToFloat(0xff800000u);
    for (uint iy = rows.x; iy < rows.y; iy += push.dilation_y)
        for (uint ix = columns.x; ix < columns.y; ix += push.dilation_x) {
            uint place = iy * push.input_width + ix;
            precise float value = x[first + place];
            if (value > largest || hlx_isnan(value) || index == 0xffffffffu) {
                largest = value;
                index = place;
            }
        }
    y[at] = largest;
    indices[at] = index;
}
