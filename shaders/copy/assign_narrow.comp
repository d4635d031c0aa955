// Elements of two bytes or one written into a strided layout of the same type: y[i] = x[i].
//
// A thread owns a word of y, and looks for each of its elements whether it is one of the layout's
// and of which index: dimensions come outermost first, by y's strides, each of which is
// longer than all that lies within. Other elements of the word are written as they were.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 990) const uint RANK = 1u;
// The logarithm of the elements per word: 1 or 2.
layout(constant_id = 980) const uint SHIFT = 2u;

layout(push_constant) uniform Push {
    uint words, x_offset, y_offset, extents[8], x_strides[8], y_strides[8];
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) restrict buffer Y { uint y[]; };

// Whether the element at `rest` from the layout's first is one of the layout's, and x's place.
bool found(uint rest, out uint place) {
    place = push.x_offset;
    bool inside = true;
    for (uint d = 0u; d < RANK; ++d) {
        uint index = rest / push.y_strides[d];
        rest -= index * push.y_strides[d];
        place += index * push.x_strides[d];
        inside = inside && index < push.extents[d];
    }
    return inside && rest == 0u;
}

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.words) return;
    uint per_word = 1u << SHIFT;
    uint width = 32u >> SHIFT;
    uint word = y[at];
    for (uint j = 0u; j < per_word; ++j) {
        uint element = (at << SHIFT) + j;
        uint place;
        if (element < push.y_offset || !found(element - push.y_offset, place)) continue;
        uint bits = x[place >> SHIFT] >> (width * (place & (per_word - 1u)));
        word = bitfieldInsert(word, bits, int(j * width), int(width));
    }
    y[at] = word;
}
