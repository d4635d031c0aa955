// Attention over ranges in plain integer arithmetic: what its kernels share. A thread has a row, a query, or a key where the
// including file sums over queries; no thread waits for another. Blocks have 32 columns: keys, or queries. A workgroup
// computes 64 columns of the result, `chunk` says which.
#include "integer_operands.glsl"

// Rows of a workgroup.
const uint ROWS = 32u;
layout(local_size_x = 32) in;

// sum = the sum of row `wide_row` of a wide operand, whose planes are `plane` words apart, with row `narrow_row` of a
// narrow one. It is below 2^31, as heads have at most 256 columns.
#define SUM_ROWS(sum, wide, wide_row, plane, narrow, narrow_row)                 \
    sum = 0;                                                                     \
    [[dont_unroll]] for (uint w = 0u; w < WORDS; ++w) {                          \
        uint at = (wide_row) * WORDS + w;                                        \
        ivec4 x = 256 * digits_of(wide[at]) + digits_of(wide[(plane) + at]);     \
        ivec4 products = x * digits_of(narrow[(narrow_row) * WORDS + w]);        \
        sum += (products.x + products.y) + (products.z + products.w);            \
    }

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
// row_of(j) of `source`)). DIGITS(at) gives four digits of the source.
#define EACH_PRODUCT(integers, factors, DIGITS, ROW_OF, chunk, STEP)             \
    [[dont_unroll]] for (uint w = 0u; w < CHUNK / 4u && CHUNK / 4u * (chunk) + w < WORDS; ++w) { \
        ivec4 total = ivec4(0);                                                  \
        [[dont_unroll]] for (uint j = 0u; j < COLS; ++j)                         \
            total += integers[j] * DIGITS(ROW_OF(j) * WORDS + CHUNK / 4u * (chunk) + w); \
        for (uint i = 0u; i < 4u; ++i) {                                         \
            uint d = 4u * w + i;                                                 \
            precise float product = hlx_pos0(folded(float_of_sum(total[i]), factors)); \
            STEP                                                                 \
        }                                                                        \
    }
