// Maximum pooling: y[plane, oy, ox] is the window's largest element, and its place in the plane. Of
// equal ones (zeros of either sign are) the first is taken; NaN is larger than all, the last NaN's
// place is stored. A window that sees no element gives its type's least (minus infinity) and the place
// 2^32 - 1.
#include "windows.glsl"

layout(constant_id = 1) const uint TYPE = 0u;  // 0: f32, 1: i32, 2: u32

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { uint y[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Indices { uint indices[]; };

bool is_above(uint word, uint largest) {
    if (TYPE == 1u) return int(word) > int(largest);
    if (TYPE == 2u) return word > largest;
    precise float value = uintBitsToFloat(word);
    return value > uintBitsToFloat(largest) || hlx_isnan(value);
}

void main() {
    HLX_PLANE_ELEMENT(push.output_height, push.output_width, oy, ox)
    uvec2 rows = window_of(axis_y(), oy);
    uvec2 columns = window_of(axis_x(), ox);
    uint first = plane * push.input_height * push.input_width;
    uint index = 0xffffffffu;
    uint largest = TYPE == 0u ? 0xff800000u : TYPE == 1u ? 0x80000000u : 0u;
    for (uint iy = rows.x; iy < rows.y; iy += push.dilation_y)
        for (uint ix = columns.x; ix < columns.y; ix += push.dilation_x) {
            uint place = iy * push.input_width + ix;
            uint word = x[first + place];
            if (index == 0xffffffffu || is_above(word, largest)) {
                largest = word;
                index = place;
            }
        }
    y[at] = largest;
    indices[at] = index;
}
