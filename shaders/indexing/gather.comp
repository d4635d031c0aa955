// Picks elements by index along an axis: result[i] = x[i with index[i] in the place of the axis].
//
// result is contiguous, of the index's shape; elements of any type move as they are, a thread
// writes whole words of the result. The dimensions are those that x (without the axis) and the index
// step through together. An index that is negative or not below n gives 0, and with FLAGGED
// flag[0] becomes the lowest row-major number of such an index: an integer minimum shows no order.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint BITS = 32u;  // of an element: 32, 16 or 8
layout(constant_id = 1) const uint FLAGGED = 0u;

layout(push_constant) uniform Push {
    uint count;  // elements of the result
    uint n;      // extent of the axis
    uint axis_stride;
    uint x_first;
    uint index_first;
    uint n_dims;
    uint extents[8];
    uint x_strides[8];
    uint index_strides[8];
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Index { uint index[]; };
layout(set = 0, binding = 2) restrict buffer Flag { uint flag[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Result { uint result[]; };

const uint A_WORD = 32u / BITS;

uint element(uint number) {
    uint place = push.x_first;
    uint index_place = push.index_first;
    uint rest = number;
    for (uint d = push.n_dims; d > 0u; --d) {
        uint above = d > 1u ? rest / push.extents[d - 1u] : 0u;
        uint at = rest - above * push.extents[d - 1u];
        place += at * push.x_strides[d - 1u];
        index_place += at * push.index_strides[d - 1u];
        rest = above;
    }
    uint row = index[index_place];
    if (row >= push.n) {
        if (FLAGGED != 0u) atomicMin(flag[0], number);
        return 0u;
    }
    place += row * push.axis_stride;
    if (BITS == 32u) return x[place];
    uint word = x[place / A_WORD];
    return (word >> (BITS * (place % A_WORD))) & ((1u << (BITS & 31u)) - 1u);
}

void main() {
    uint word = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint first = word * A_WORD;
    if (first >= push.count) return;
    uint packed = 0u;
    for (uint i = 0u; i < A_WORD && first + i < push.count; ++i) packed |= element(first + i) << (BITS * i & 31u);
    result[word] = packed;
}
