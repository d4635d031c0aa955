// An operand and an index along one of its axes: the dimensions are those that x (without the axis) and the index step through
// together.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 1) const uint FLAGGED = 0u;

layout(push_constant) uniform Push {
    uint count;
    uint n;  // extent of the axis
    uint axis_stride, x_first, index_first, n_dims, extents[8], x_strides[8];
    uint index_strides[8];
} push;

// The statement for each dimension d - 1 of an element, which lies there at `at`, the last one first.
#define EACH_DIMENSION(number, STATEMENT) \
    uint rest = number; \
    for (uint d = push.n_dims; d > 0u; --d) { \
        uint above = d > 1u ? rest / push.extents[d - 1u] : 0u; \
        uint at = rest - above * push.extents[d - 1u]; \
        STATEMENT \
        rest = above; \
    }
