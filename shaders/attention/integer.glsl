// Attention over ranges in plain integer arithmetic, or with DOTS by dot products of four bytes: what its kernels share. A thread has a row, a query, or a key where the
// including file sums over queries; no thread waits for another. Blocks have 32 columns: keys, or queries. A workgroup
// computes 64 columns of the result, `chunk` says which.
#include "integer_operands.glsl"

// Rows of a workgroup.
const uint ROWS = 32u;
layout(local_size_x = 32) in;

// sum = the sum of row `wide_row` of an operand with two digits, whose planes are `plane` words apart, with row `narrow_row` of
// one with one digit. It is below 2^31, as heads have at most 256 columns.
#ifdef DOTS
#extension GL_EXT_integer_dot_product : require
#define SUM_ROWS(sum, wide, wide_row, plane, narrow, narrow_row)                 \
    sum = 0;                                                                     \
    {                                                                            \
        int upper = 0;                                                           \
        [[dont_unroll]] for (uint w = 0u; w < WORDS; ++w) {                      \
            uint at = (wide_row) * WORDS + w;                                    \
            int other = int(narrow[(narrow_row) * WORDS + w]);                   \
            upper += dotPacked4x8EXT(int(wide[at]), other);                      \
            sum += dotPacked4x8EXT(int(wide[(plane) + at]), other);              \
        }                                                                        \
        sum += 256 * upper;                                                      \
    }
#else
#define SUM_ROWS(sum, wide, wide_row, plane, narrow, narrow_row)                 \
    sum = 0;                                                                     \
    [[dont_unroll]] for (uint w = 0u; w < WORDS; ++w) {                          \
        uint at = (wide_row) * WORDS + w;                                        \
        ivec4 x = 256 * digits_of(wide[at]) + digits_of(wide[(plane) + at]);     \
        ivec4 products = x * digits_of(narrow[(narrow_row) * WORDS + w]);        \
        sum += (products.x + products.y) + (products.z + products.w);            \
    }
#endif

// Makes integers of a block's weights, which are zero where a thread sees nothing, and returns the factors of their
// exponent.
vec2 quantise(float weights[COLS], bool wide, out int integers[COLS]) {
    uint top = 0u;
    [[dont_unroll]] for (uint j = 0u; j < COLS; ++j) top = max(top, hlx_magnitude(weights[j]));
    int exponent = hlx_row_exponent(top, wide);
    vec2 scale = hlx_scale(exponent);
    [[dont_unroll]] for (uint j = 0u; j < COLS; ++j) integers[j] = hlx_quantised(weights[j], exponent, scale);
    return hlx_factors(exponent);
}

// The chunk's sums of a thread's row. No other thread reads them.
shared float sums[SUMS * CHUNK * ROWS];
#define SUM(which, d) sums[((which) * CHUNK + (d)) * ROWS + gl_LocalInvocationIndex]

void clear_sums() {
    [[dont_unroll]] for (uint d = 0u; d < SUMS * CHUNK; ++d) SUM(0u, d) = 0.0;
}

// For each column d of the chunk STEP(d, product(sum of a thread's integers with the block's rows, which begin at row
// row_of(j) of a source)). ADD(total, at, j) adds the products of integer j, or with DOTS of integers 4 j .. 4 j + 3, with four
// columns of their rows, whose word in a row is `at`.
#ifdef DOTS
const uint TERMS = COLS / 4u;

// The digits of a thread's integers, four per word: the lower ones, and the upper ones, if there are two.
void digits_of_integers(int integers[COLS], out int lower[TERMS], out int upper[TERMS]) {
    [[dont_unroll]] for (uint j = 0u; j < TERMS; ++j) {
        ivec4 q = ivec4(integers[4u * j], integers[4u * j + 1u], integers[4u * j + 2u], integers[4u * j + 3u]);
        lower[j] = int(hlx_lower_digits(q));
        upper[j] = int(hlx_upper_digits(q));
    }
}

// Four words of four columns of as many rows: a word of each column.
ivec4 turned(uvec4 rows) {
    uvec2 even = (rows.xz & 0x00ff00ffu) | ((rows.yw & 0x00ff00ffu) << 8);
    uvec2 odd = ((rows.xz >> 8) & 0x00ff00ffu) | (rows.yw & 0xff00ff00u);
    return ivec4((even.x & 0xffffu) | (even.y << 16), (odd.x & 0xffffu) | (odd.y << 16),
                 (even.x >> 16) | (even.y & 0xffff0000u), (odd.x >> 16) | (odd.y & 0xffff0000u));
}

ivec4 dots(int x, ivec4 columns) {
    return ivec4(dotPacked4x8EXT(x, columns.x), dotPacked4x8EXT(x, columns.y),
                 dotPacked4x8EXT(x, columns.z), dotPacked4x8EXT(x, columns.w));
}

// The word `w` of the rows of integers 4 j .. 4 j + 3.
#define WORDS_OF(source, ROW_OF, first, j, w)                                    \
    turned(uvec4(source[(first) + ROW_OF(4u * (j)) * WORDS + (w)], source[(first) + ROW_OF(4u * (j) + 1u) * WORDS + (w)], \
                 source[(first) + ROW_OF(4u * (j) + 2u) * WORDS + (w)], source[(first) + ROW_OF(4u * (j) + 3u) * WORDS + (w)]))
// Integers with two digits and rows with one, and integers with one digit and rows with two, whose planes are `plane` words apart.
#define ADD_WIDE(total, source, ROW_OF, plane, j, w)                             \
    {                                                                            \
        ivec4 columns = WORDS_OF(source, ROW_OF, 0u, j, w);                      \
        total += 256 * dots(upper[j], columns) + dots(lower[j], columns);        \
    }
#define ADD_NARROW(total, source, ROW_OF, plane, j, w)                           \
    total += 256 * dots(lower[j], WORDS_OF(source, ROW_OF, 0u, j, w)) +          \
        dots(lower[j], WORDS_OF(source, ROW_OF, plane, j, w));
#define EACH_PRODUCT(integers, factors, ADD, source, plane, ROW_OF, chunk, STEP) \
    {                                                                            \
        int lower[TERMS];                                                        \
        int upper[TERMS];                                                        \
        digits_of_integers(integers, lower, upper);                              \
        EACH_COLUMN(factors, ADD, source, plane, ROW_OF, chunk, STEP)            \
    }
#else
const uint TERMS = COLS;

#define ADD_WIDE(total, source, ROW_OF, plane, j, w) total += integers[j] * digits_of(source[ROW_OF(j) * WORDS + (w)]);
#define ADD_NARROW(total, source, ROW_OF, plane, j, w)                           \
    total += integers[j] *                                                       \
        (256 * digits_of(source[ROW_OF(j) * WORDS + (w)]) + digits_of(source[(plane) + ROW_OF(j) * WORDS + (w)]));
#define EACH_PRODUCT(integers, factors, ADD, source, plane, ROW_OF, chunk, STEP) \
    EACH_COLUMN(factors, ADD, source, plane, ROW_OF, chunk, STEP)
#endif

#define EACH_COLUMN(factors, ADD, source, plane, ROW_OF, chunk, STEP)            \
    [[dont_unroll]] for (uint w = 0u; w < CHUNK / 4u && CHUNK / 4u * (chunk) + w < WORDS; ++w) { \
        ivec4 total = ivec4(0);                                                  \
        [[dont_unroll]] for (uint j = 0u; j < TERMS; ++j)                        \
            ADD(total, source, ROW_OF, plane, j, CHUNK / 4u * (chunk) + w)       \
        for (uint i = 0u; i < 4u; ++i) {                                         \
            uint d = 4u * w + i;                                                 \
            precise float product = hlx_pos0(folded(float_of_sum(total[i]), factors)); \
            STEP                                                                 \
        }                                                                        \
    }

// A thread's query. The last tiles of all heads, which see most keys if attention is causal, go first.
#define OWN_QUERY                                                                \
    uint tiles = (push.queries + ROWS - 1u) / ROWS;                              \
    if (!find_place(tiles, push.heads)) return;                                  \
    uint query = (tiles - 1u - tile) * ROWS + gl_LocalInvocationIndex;           \
    if (query >= push.queries) return;                                           \
    uvec4 range = ranges[sample_idx * push.queries + query];                     \
    uint row = stats_base(sample_idx, own_head) + query;                         \
    uint first_key = keys_of(sample_idx, own_head);                              \
    uint last_key = first_key + push.keys - 1u;                                  \
    uint plane = query_rows() * WORDS;                                           \
    uint behind_keys = key_rows() * WORDS;                                       \
    vec2 of_row = FACTORS(q, 2u * plane, row);
