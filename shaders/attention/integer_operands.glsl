// Attention over ranges in the integer arithmetic: sizes, operands, and what all its kernels compute alike.
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

// The factors of a row's exponent, behind so many words of digits.
#define FACTORS(operand, words, row) hlx_factors(int(operand[(words) + (row)]))

// A sum below 2^31 as a float, rounded once: of its upper and its lower 16 bits, which are floats by their bits alone.
float float_of_sum(int sum) {
    precise float upper = hlx_sub(intBitsToFloat(0x4b400000 + (sum >> 16)), 12582912.0);
    precise float lower = hlx_sub(intBitsToFloat(0x4b000000 | (sum & 0xffff)), 8388608.0);
    return hlx_fma(upper, 65536.0, lower);
}

// A sum times the factors of one exponent; -0 becomes +0.
float product_of(int sum, vec2 factors) { return hlx_result_of_sum(float_of_sum(sum), factors, vec2(1.0)); }

// x times the factors of a row's exponent.
float folded(float x, vec2 factors) { return hlx_mul(hlx_mul(x, factors.x), factors.y); }
