// What the kernels that prepare columns share: the matrices, and four neighbouring numbers of them. A file that includes this
// one defines SOURCE_BINDING, and may say what the numbers are computed from (source.glsl).
#include "../include/integer.glsl"
#include "source.glsl"

// The number of columns and the stride are multiples of four.
layout(constant_id = 1) const bool VECTORS = false;

// Terms of a column's piece.
layout(constant_id = 8) const uint COLUMN_PIECE = HLX_PIECE;

layout(push_constant) uniform Push {
    uint outer, k, columns;
    uint words;      // of a column in a plane
    uint row_words;  // of a row in a plane, where rows are prepared too
    uint stride;     // from matrix to matrix
} push;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)

// Of a column and of a row.
uint pieces() { return max((push.k + COLUMN_PIECE - 1u) / COLUMN_PIECE, 1u); }

uint row_pieces() { return max((push.columns + HLX_PIECE - 1u) / HLX_PIECE, 1u); }

// Where the largest magnitudes lie: those of the columns, [outer columns, pieces], then those of the rows.
uint at_column_top(uint outer, uint column, uint row) {
    return (outer * push.columns + column) * pieces() + row / COLUMN_PIECE;
}
uint at_row_top(uint outer, uint row, uint column) {
    return push.outer * push.columns * pieces() + (outer * push.k + row) * row_pieces() + column / HLX_PIECE;
}

// Zeros past an edge.
vec4 load(uint outer, uint row, uint column) {
    uint own_row = min(row, max(push.k, 1u) - 1u);
    uint at = outer * push.stride + own_row * push.columns + column;
    vec4 v = vec4(0.0);
    if (VECTORS) {
        if (column < push.columns) v = x_vectors[at / 4u];
    } else {
        [[unroll]] for (uint j = 0u; j < 4u; ++j) if (column + j < push.columns) v[j] = x[at + j];
    }
    return row < push.k ? of_source4(v, outer * push.k + own_row, column, push.columns, at) : vec4(0.0);
}
