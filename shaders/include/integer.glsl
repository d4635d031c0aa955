// The `integer` arithmetic (docs/numerics.md): numbers of a row as integers times a power of two of the row.
#include "arith.glsl"

// Terms of a row's piece, which has an exponent of its own.
const uint HLX_PIECE = 4096u;
// The exponent of a piece with a NaN or an infinity.
const int HLX_NO_EXPONENT = 0x7fffffff;
// That of a piece of zeros: the factors of 2^-254 are zeros, so that what is weighted by them counts nowhere.
const int HLX_EXPONENT_OF_ZEROS = 254;

// A number's magnitude, which orders as an unsigned integer; a subnormal counts as zero.
uint hlx_magnitude(float x) {
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    return bits < 0x00800000u ? 0u : bits;
}

// e of a row by its largest magnitude: the numbers times 2^e are integers of 16 bits in two digits (wide), or of
// 8, after rounding.
int hlx_row_exponent(uint top, bool wide) {
    if (top == 0u) return HLX_EXPONENT_OF_ZEROS;
    if (top >= 0x7f800000u) return HLX_NO_EXPONENT;
    int exponent = int(top >> 23) - 127;
    uint significand = (top & 0x007fffffu) | 0x00800000u;
    int largest = wide ? 14 : 6;
    return largest - exponent - (significand >= (wide ? 0x00feff00u : 0x00ff0000u) ? 1 : 0);
}

// 2^e as two factors, for an exponent that is one.
vec2 hlx_scale(int e) {
    int first = e >> 1;
    return uintBitsToFloat(uvec2(ivec2(first + 127, e - first + 127)) << 23);
}

// x 2^e to the nearest integer, ties to even, where x's magnitude is at most its piece's; scale is 2^e. Either product
// is exact, or so small that zero is the nearest integer. 0 in a piece without an exponent.
int hlx_quantised(float x, int e, vec2 scale) {
    // The addition rounds where the unit is 1.
    const float UNIT = 12582912.0;
    precise float rounded = hlx_add(hlx_mul(hlx_mul(x, scale.x), scale.y), UNIT);
    int q = int(floatBitsToUint(rounded)) - int(floatBitsToUint(UNIT));
    return e == HLX_NO_EXPONENT ? 0 : q;
}

ivec4 hlx_quantised4(vec4 x, int e, vec2 scale) {
    ivec4 q;
    for (uint j = 0u; j < 4u; ++j) q[j] = hlx_quantised(x[j], e, scale);
    return q;
}

// The lower and the upper digits of four integers, a word each; the lower ones are those of an operand with one digit.
uint hlx_lower_digits(ivec4 q) {
    uvec4 bytes = uvec4(q) & 255u;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

uint hlx_upper_digits(ivec4 q) {
    return hlx_lower_digits((q + 128) >> 8);
}

// Where the digits of an operand lie, which has rows of units of 16 bytes, each in as many planes as its numbers have digits: in
// rows, [planes, rows, units], or in pieces of 16 rows and 2 units, as matrices load them: [units / 2, rows / 16, planes,
// 2 units, 16 rows], where the last pieces have room for 16 rows.
uint hlx_blocks(uint rows) { return (rows + 15u) / 16u; }

uint hlx_unit_at(uint row, uint plane, uint unit, uint planes, uint rows, uint units, bool in_pieces) {
    if (!in_pieces) return (plane * rows + row) * units + unit;
    uint piece = (unit / 2u * hlx_blocks(rows) + row / 16u) * planes + plane;
    return piece * 32u + unit % 2u * 16u + row % 16u;
}

// The same of a word of the first plane, and the words from one plane to the next.
uint hlx_word_at(uint row, uint word, uint planes, uint rows, uint words, bool in_pieces) {
    return 4u * hlx_unit_at(row, 0u, word / 4u, planes, rows, words / 4u, in_pieces) + word % 4u;
}
uint hlx_plane(uint rows, uint words, bool in_pieces) { return in_pieces ? 128u : rows * words; }

// Stores the digits of four integers, a word in each plane: wide ones have two planes, the upper digits first.
#define HLX_STORE_DIGITS(digits, at, plane, q, wide) \
    if (wide) { \
        digits[at] = hlx_upper_digits(q); \
        digits[(plane) + (at)] = hlx_lower_digits(q); \
    } else { \
        digits[at] = hlx_lower_digits(q); \
    }

// The whole sum 256 high + low as a float, rounded once: of its upper bits and the 23 below. Either is exact, and a float
// by its bits alone, as a conversion takes as long as four other instructions.
float hlx_float_of_sums(int high, int low) {
    int upper = high + (low >> 8);
    int rest = (upper & 0x7fff) << 8 | (low & 0xff);
    precise float first = hlx_sub(intBitsToFloat(0x4b400000 + (upper >> 15)), 12582912.0);
    precise float second = hlx_sub(intBitsToFloat(0x4b000000 | rest), 8388608.0);
    return hlx_fma(first, 8388608.0, second);
}

// 2^-e as two factors; NaN where there is no exponent.
vec2 hlx_factors(int e) {
    return e == HLX_NO_EXPONENT ? vec2(uintBitsToFloat(HLX_NAN)) : hlx_scale(-e);
}

// A rounded sum times the factors of its row and column: sum 2^-(e_a + e_b). What is tiny becomes a zero, what is large an
// infinity. The halves of the exponents are joined first: they go past a float's range only where the whole does, too.
float hlx_scaled_sum(float sum, vec2 of_a, vec2 of_b) {
    precise float first = hlx_mul(of_a.x, of_b.x);
    precise float second = hlx_mul(of_a.y, of_b.y);
    return hlx_mul(hlx_mul(sum, first), second);
}

// An element of a product: -0 becomes +0.
float hlx_result_of_sum(float sum, vec2 of_a, vec2 of_b) { return hlx_pos0(hlx_scaled_sum(sum, of_a, of_b)); }
