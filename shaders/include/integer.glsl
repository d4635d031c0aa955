// The `integer` arithmetic (docs/numerics.md): numbers of a row as integers times a power of two of the row.
#ifndef HLX_INTEGER_GLSL
#define HLX_INTEGER_GLSL

// Terms of a row's piece, which has an exponent of its own.
const uint HLX_PIECE = 4096u;
// The exponent of a piece with a NaN or an infinity.
const int HLX_NO_EXPONENT = 0x7fffffff;

// A number's magnitude, which orders as an unsigned integer; a subnormal counts as zero.
uint hlx_magnitude(float x) {
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    return bits < 0x00800000u ? 0u : bits;
}

// e of a row by its largest magnitude: the numbers times 2^e are integers of 16 bits in two digits (wide), or of
// 8, after rounding.
int hlx_row_exponent(uint top, bool wide) {
    if (top == 0u) return 0;
    if (top >= 0x7f800000u) return HLX_NO_EXPONENT;
    int exponent = int(top >> 23) - 127;
    uint significand = (top & 0x007fffffu) | 0x00800000u;
    int largest = wide ? 14 : 6;
    return largest - exponent - (significand >= (wide ? 0x00feff00u : 0x00ff0000u) ? 1 : 0);
}

// x 2^e to the nearest integer, ties to even; x's magnitude is at most the row's.
int hlx_quantised(float x, int e) {
    uint bits = floatBitsToUint(x);
    int exponent = int((bits >> 23) & 255u) + e;
    // Below 2^-126 it rounds to zero, as does every zero and subnormal.
    if ((bits & 0x7f800000u) == 0u || exponent <= 0) return 0;
    precise float scaled = uintBitsToFloat((bits & 0x807fffffu) | uint(exponent) << 23);
    // The addition rounds where the unit is 1.
    const float UNIT = 12582912.0;
    return int(floatBitsToUint(hlx_add(scaled, UNIT))) - int(floatBitsToUint(UNIT));
}

// The lower and the upper digits of four numbers, a word each; the lower ones are those of a narrow operand.
uint hlx_lower_digits(vec4 x, int e) {
    uint word = 0u;
    for (uint j = 0u; j < 4u; ++j) word |= (uint(hlx_quantised(x[j], e)) & 255u) << (8u * j);
    return word;
}

uint hlx_upper_digits(vec4 x, int e) {
    uint word = 0u;
    for (uint j = 0u; j < 4u; ++j) word |= (uint((hlx_quantised(x[j], e) + 128) >> 8) & 255u) << (8u * j);
    return word;
}

// The whole sum 256 high + low as a float, rounded once: of its upper 16 bits and the 24 below, which are exact.
float hlx_float_of_sums(int high, int low) {
    int upper = high + (low >> 8);
    int rest = (upper & 0xffff) << 8 | (low & 0xff);
    return hlx_fma(float(upper >> 16), 16777216.0, float(rest));
}

// v 2^-e, where v is no subnormal, NaN or infinity: what is tiny becomes +0, what is large an infinity.
float hlx_scaled_down(float v, int e) {
    uint bits = floatBitsToUint(v);
    int exponent = int((bits >> 23) & 255u) - e;
    if ((bits & 0x7f800000u) == 0u || exponent <= 0) return 0.0;
    if (exponent >= 255) return uintBitsToFloat((bits & 0x80000000u) | 0x7f800000u);
    return uintBitsToFloat((bits & 0x807fffffu) | uint(exponent) << 23);
}

// An element of a product from its rounded sum and the exponents of its row and column.
float hlx_result_of_sum(float sum, int of_a, int of_b) {
    if (of_a == HLX_NO_EXPONENT || of_b == HLX_NO_EXPONENT) return uintBitsToFloat(HLX_NAN);
    return hlx_pos0(hlx_scaled_down(sum, of_a + of_b));
}

#endif
