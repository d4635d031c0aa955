// Picks elements by index along an axis: result[i] = x[i with index[i] in the place of the axis].
//
// result is contiguous, of the index's shape; elements of any type move as they are, a thread
// writes whole words of the result. An index that is negative or not below n gives 0, and with FLAGGED
// flag[0] becomes the lowest row-major number of such an index: an integer minimum shows no order.
#include "axis.glsl"

layout(constant_id = 0) const uint BITS = 32u;  // of an element: 32, 16 or 8
// Four elements per thread, one behind the other along the last dimension: 1 by a vector of indices,
// 2 by one index, from a vector of x.
layout(constant_id = 2) const uint QUADS = 0u;

HLX_WITH_VECTORS(0, readonly, uint, X, x)
HLX_WITH_VECTORS(1, readonly, uint, Index, index)
layout(set = 0, binding = 2) buffer Flag { uint flag[]; };
HLX_WITH_VECTORS(3, writeonly, uint, Result, result)

const uint A_WORD = 32u / BITS;

// Where an element's line of x begins, and where its index lies.
uvec2 places_of(uint number) {
    uvec2 place = uvec2(push.x_first, push.index_first);
    EACH_DIMENSION(number, place += at * uvec2(push.x_strides[d - 1u], push.index_strides[d - 1u]);)
    return place;
}

bool is_valid(uint row, uint number) {
    if (row < push.n) return true;
    if (FLAGGED != 0u) atomicMin(flag[0], number);
    return false;
}

uint element(uint number) {
    uvec2 place = places_of(number);
    uint row = index[place.y];
    if (!is_valid(row, number)) return 0u;
    place.x += row * push.axis_stride;
    if (BITS == 32u) return x[place.x];
    uint word = x[place.x / A_WORD];
    return (word >> (BITS * (place.x % A_WORD))) & ((1u << (BITS & 31u)) - 1u);
}

// The elements from `number`, a multiple of four, on.
uvec4 quad(uint number) {
    uvec4 elements = uvec4(0u);
    uvec2 place = places_of(number);
    if (QUADS == 2u) {
        uint row = index[place.y];
        if (is_valid(row, number)) elements = x_vectors[(place.x + row * push.axis_stride) >> 2];
        return elements;
    }
    uvec4 rows = index_vectors[place.y >> 2];
    uint step = push.x_strides[push.n_dims - 1u];
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
        if (is_valid(rows[i], number + i))
            elements[i] = x[place.x + i * step + rows[i] * push.axis_stride];
    return elements;
}

void main() {
    uint word = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (QUADS != 0u) {
        if (4u * word < push.count) result_vectors[word] = quad(4u * word);
        return;
    }
    uint first = word * A_WORD;
    if (first >= push.count) return;
    uint packed = 0u;
    for (uint i = 0u; i < A_WORD && first + i < push.count; ++i) packed |= element(first + i) << (BITS * i & 31u);
    result[word] = packed;
}
