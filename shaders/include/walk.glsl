// Places of elements in strided operands: the walk over their joint dimensions, innermost first.
//
// A shader defines HLX_OPERANDS, and HLX_DIMENSIONS, the most dimensions that its push constants
// have room for. Place and stride are counted in elements from the start of the operand's binding;
// they wrap, so that a stride may be negative.

// Dimensions of the walk, 1 or more.
layout(constant_id = 990) const uint RANK = 1u;
// 1 where four elements from a multiple of four on never leave their row.
layout(constant_id = 991) const uint QUADS = 1u;

layout(push_constant) uniform Push {
    uint count;
#ifdef HLX_PARAMETERS
    uint parameters[HLX_PARAMETERS];
#endif
    uint offsets[HLX_OPERANDS];
    uint extents[HLX_DIMENSIONS - 1];
    uint strides[HLX_OPERANDS * HLX_DIMENSIONS];
} push;

// The places of a row's first element.
uvec3 hlx_row_places(uint row) {
    uvec3 place = uvec3(0u);
    [[unroll]] for (uint k = 0u; k < HLX_OPERANDS; ++k) place[k] = push.offsets[k];
    [[unroll]] for (uint d = 1u; d < RANK; ++d) {
        uint index = row;
        if (d + 1u < RANK) {
            row = row / push.extents[d];
            index -= row * push.extents[d];
        }
        [[unroll]] for (uint k = 0u; k < HLX_OPERANDS; ++k)
            place[k] += index * push.strides[k * HLX_DIMENSIONS + d];
    }
    return place;
}

// The places of one element.
uvec3 hlx_places(uint element) {
    uint row = RANK > 1u ? element / push.extents[0] : 0u;
    uvec3 place = hlx_row_places(row);
    uint column = RANK > 1u ? element - row * push.extents[0] : element;
    [[unroll]] for (uint k = 0u; k < HLX_OPERANDS; ++k)
        place[k] += column * push.strides[k * HLX_DIMENSIONS];
    return place;
}

// The places of the `n` elements from `first` on, a multiple of four; the last one's for the rest.
void hlx_quad_places(uint first, uint n, out uvec3 place[4]) {
    uvec3 step = uvec3(0u);
    [[unroll]] for (uint k = 0u; k < HLX_OPERANDS; ++k) step[k] = push.strides[k * HLX_DIMENSIONS];
    uint row = RANK > 1u ? first / push.extents[0] : 0u;
    uint column = RANK > 1u ? first - row * push.extents[0] : first;
    place[0] = hlx_row_places(row) + column * step;
    [[unroll]] for (uint j = 1u; j < 4u; ++j) {
        place[j] = place[j - 1u] + (j < n ? step : uvec3(0u));
        if (QUADS == 0u && j < n && ++column == push.extents[0]) {
            column = 0u;
            place[j] = hlx_row_places(++row);
        }
    }
}
