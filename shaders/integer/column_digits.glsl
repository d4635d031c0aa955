// The columns of matrices as integers, as row_digits.glsl has rows: x: [outer, k, columns]; tops: the largest
// magnitudes (tops.glsl); digits: outer columns rows of words, zeros past k; exponents: [outer columns, pieces]. With
// WITH_ROWS also the rows: row_digits: outer k rows of row_words, row_exponents: [outer k, row pieces]. A workgroup has
// tiles of 128 rows and 32 columns, which shared memory transposes: one, or all of short columns, whose largest magnitudes it
// finds by itself.
#ifdef WITH_ROWS
#define SOURCE_BINDING 6
#else
#define SOURCE_BINDING 4
#endif
#include "columns.glsl"

layout(local_size_x = 256) in;

#include "transposed_tile.glsl"

// Tiles of a column that a workgroup has, of one piece; 0 of those whose largest magnitudes are given.
layout(constant_id = 4) const uint OWN_TILES = 0;

// Where the digits lie (include/integer.glsl).
layout(constant_id = 15) const bool IN_PIECES = false;

layout(set = 0, binding = 1) readonly restrict buffer Tops { uint tops[]; };
#ifndef WITH_ROWS
#define COUNTED_BINDING 1
#include "counted.glsl"
#endif
layout(set = 0, binding = 2) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Exponents { int exponents[]; };
#ifdef WITH_ROWS
layout(constant_id = 2) const bool WIDE_ROWS = false;
layout(constant_id = 16) const bool ROWS_IN_PIECES = false;

layout(set = 0, binding = 4) writeonly restrict buffer RowDigits { uint row_digits[]; };
layout(set = 0, binding = 5) writeonly restrict buffer RowExponents { int row_exponents[]; };
#endif

const uint ROWS = 4u * WORDS;
const uint TILES = OWN_TILES > 0u ? OWN_TILES : 1u;

shared uint own_tops[COLUMNS];

#ifdef WITH_ROWS
// Stores the integers of four neighbouring numbers of a row.
void store_of_row(vec4 v, uint outer, uint row, uint column) {
    if (row >= push.k || column / 4u >= push.row_words) return;
    uint top = at_row_top(outer, row, column);
    int exponent = hlx_row_exponent(tops[top], WIDE_ROWS);
    ivec4 q = hlx_quantised4(v, exponent, hlx_scale(exponent));
    uint n_rows = push.outer * push.k;
    uint planes = WIDE_ROWS ? 2u : 1u;
    uint to = hlx_word_at(outer * push.k + row, column / 4u, planes, n_rows, push.row_words, ROWS_IN_PIECES);
    HLX_STORE_DIGITS(row_digits, to, hlx_plane(n_rows, push.row_words, ROWS_IN_PIECES), q, WIDE_ROWS)
    if (column % HLX_PIECE == 0u) row_exponents[top - at_row_top(0u, 0u, 0u)] = exponent;
}
#endif

void main() {
#ifdef WITH_ROWS
    uint blocks = (max(push.columns, 4u * push.row_words) + COLUMNS - 1u) / COLUMNS;
#else
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
#endif
    uint down = OWN_TILES > 0u ? 1u : (push.words + WORDS - 1u) / WORDS;
    uint outer = hlx_group() / blocks / down;
    if (outer >= push.outer) return;
    uint top_row = hlx_group() / blocks % down * ROWS;
    uint first_column = hlx_group() % blocks * COLUMNS;
    DECLARE_OWN
    vec4 v[TILES][4];
    [[unroll]] for (uint t = 0u; t < TILES; ++t)
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            v[t][j] = load(outer, top_row + t * ROWS + 4u * own_word + j, first_column + own);
#ifndef WITH_ROWS
    if (OWN_TILES > 0u) {
        if (gl_LocalInvocationIndex < COLUMNS) own_tops[gl_LocalInvocationIndex] = 0u;
        barrier();
        uvec4 top = uvec4(0u);
        [[unroll]] for (uint t = 0u; t < TILES; ++t)
            [[unroll]] for (uint j = 0u; j < 4u; ++j)
                if (counts(outer, t * ROWS + 4u * own_word + j))
                    [[unroll]] for (uint c = 0u; c < 4u; ++c) top[c] = max(top[c], hlx_magnitude(v[t][j][c]));
        [[unroll]] for (uint c = 0u; c < 4u; ++c) atomicMax(own_tops[own + c], top[c]);
        barrier();
    }
#endif
    [[unroll]] for (uint t = 0u; t < TILES; ++t) {
        uint first_row = top_row + t * ROWS;
        if (t > 0u) barrier();
#ifdef WITH_ROWS
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            store_of_row(v[t][j], outer, first_row + 4u * own_word + j, first_column + own);
#endif
        [[unroll]] for (uint c = 0u; c < 4u; ++c) {
            uint column = first_column + own + c;
            uint at = at_column_top(outer, min(column, push.columns - 1u), first_row);
            int exponent = hlx_row_exponent(OWN_TILES > 0u ? own_tops[own + c] : tops[at], WIDE);
            vec4 numbers = vec4(v[t][0][c], v[t][1][c], v[t][2][c], v[t][3][c]);
            ivec4 q = hlx_quantised4(numbers, exponent, hlx_scale(exponent));
            KEEP_DIGITS(q, c)
            if (first_row % COLUMN_PIECE == 0u && own_word == 0u && column < push.columns) exponents[at] = exponent;
        }
        barrier();
        STORE_TILE(push.outer * push.columns, (outer * push.columns + column), first_row / 4u, IN_PIECES)
    }
}
