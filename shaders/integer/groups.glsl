// What the kernels that prepare the columns of groups of rows share: the matrix, its groups, and four neighbouring numbers.
// The rows of group g are those from bounds[g] to bounds[g + 1]; in a row of digits they begin at 64 (bounds[g] / 64 + g).
#include "../include/integer.glsl"

// The number of columns is a multiple of four.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint rows, columns, groups;
    uint words;  // of a column in a plane
} push;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) readonly restrict buffer Bounds { uint bounds[]; };

// The first row of a group, and its first digit.
uint row_of(uint group) { return min(bounds[group], push.rows); }
uint digit_of(uint group) { return 64u * (row_of(group) / 64u + group); }

// The largest magnitudes: [columns, groups].
uint at_top(uint column, uint group) { return column * push.groups + group; }

// Zeros past an edge.
vec4 load(uint row, uint column) {
    vec4 v = vec4(0.0);
    if (row >= push.rows || column >= push.columns) return v;
    uint at = row * push.columns + column;
    if (VECTORS) return x_vectors[at / 4u];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) if (column + j < push.columns) v[j] = x[at + j];
    return v;
}

// Defines a function that finds the group of a row or of a digit: the last whose first one is not behind it.
#define DEFINE_GROUP_OF(group_of, place, FIRST_OF) \
    uint group_of(uint place) { \
        uint first = 0u; \
        uint end = push.groups; \
        while (first + 1u < end) { \
            uint middle = first + (end - first) / 2u; \
            if (FIRST_OF(middle) <= place) first = middle; \
            else end = middle; \
        } \
        return first; \
    }
