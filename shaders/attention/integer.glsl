// Attention over ranges in the integer arithmetic: what its kernels share. A thread has a row, a query, or a key where the
// including file sums over queries; no thread waits for another. Blocks have 32 columns: keys, or queries. A workgroup
// computes 64 columns of the result, `chunk` says which.
//
// Operands have their digits first, [planes, rows, WORDS] with four digits a word, then an exponent a row; rows are
// [batch, heads, positions] (prepare_heads.comp).
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#include "../include/integer.glsl"

// Heads' columns.
layout(constant_id = 0) const uint D = 64;
// Scores become cap tanh(s / cap).
layout(constant_id = 2) const bool CAPPED = false;
// Weights are dropped.
layout(constant_id = 3) const bool DROPPED = false;

// Rows of a workgroup.
const uint ROWS = 32u;
layout(local_size_x = 32) in;

layout(push_constant) uniform Push {
    uint batch;
    uint queries;
    uint keys;
    uint heads;
    uint group;  // query heads of a key head
    float scale;
    float cap;
    float inverse_cap;
    uint seed_low;
    uint seed_high;
    uint purpose;
    float p;
    float factor;  // 1 / (1 - p)
} push;

layout(set = 0, binding = 0) readonly restrict buffer Q { uint q[]; };
layout(set = 0, binding = 1) readonly restrict buffer K { uint k[]; };
layout(set = 0, binding = 2) readonly restrict buffer V { uint v[]; };
layout(set = 0, binding = 3) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 4) readonly restrict buffer Counter { uint step_and_base[]; };

const uint COLS = 32u;
const uint CHUNK = 64u;
// Words of a row.
const uint WORDS = (D + 31u) / 32u * 8u;

#include "vectors.glsl"
#include "score.glsl"
#include "draws.glsl"

uint query_rows() { return push.batch * push.heads * push.queries; }
uint key_rows() { return push.batch * (push.heads / push.group) * push.keys; }
// The first row of a head.
uint queries_of(uint sample_idx, uint head) { return (sample_idx * push.heads + head) * push.queries; }
uint keys_of(uint sample_idx, uint head) {
    return (sample_idx * (push.heads / push.group) + head / push.group) * push.keys;
}

// The four digits of a word.
ivec4 digits_of(uint word) { return ivec4(word << 24, word << 16, word << 8, word) >> 24; }

// The factors of a row's exponent, behind so many words of digits.
#define FACTORS(operand, words, row) hlx_factors(int(operand[(words) + (row)]))

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

// A sum below 2^31 as a float, rounded once.
float float_of_sum(int sum) { return hlx_float_of_sums(sum >> 8, sum & 255); }

// x times the factors of a row's exponent.
float folded(float x, vec2 factors) { return hlx_mul(hlx_mul(x, factors.x), factors.y); }

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
            precise float product = hlx_result_of_sum(float_of_sum(total[i]), factors, vec2(1.0)); \
            STEP                                                                 \
        }                                                                        \
    }
