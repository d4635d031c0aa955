// What the kernels of a sort share: x [lines, n] along an axis of stride axis_stride, its keys, and
// where results go.
//
// Elements are compared by the keys of order_key.glsl, with all bits flipped for a descending order,
// and equal keys by their place in the line: the order is total, so how it is reached never shows.
// Result j of a line lies at (line / inner) k inner + j inner + line mod inner, for j < k.
#extension GL_EXT_control_flow_attributes : require // also of modules without such a loop
#include "../include/arith.glsl"
#include "../include/order_key.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 0u;
layout(constant_id = 1) const uint FLIP = 0u;

layout(push_constant) uniform Push {
    uint lines;
    uint n;       // elements of a line
    uint blocks;  // of a line, in a radix sort
    uint shift;   // of the digit, in a radix sort
    uint k;       // results of a line
    uint inner, axis_stride;
    HLX_LINE_MEMBERS
} push;

#include "../include/lines.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };

uint key_at(uint place) {
    uint word = hlx_widen(DTYPE, x[hlx_element_word(DTYPE, place)], place);
    return hlx_order_key(DTYPE, word) ^ FLIP;
}

uint result_place(uint line, uint j) {
    uint outer = line / push.inner;
    return (outer * push.k + j) * push.inner + (line - outer * push.inner);
}
