// Moments in bytes: "Moments in 8 bits" of docs/numerics.md. FINE is the number of fraction bits from 2^-4 to 1:
// 4 for the first moment, 5 for the second.

const uint SMALLEST_SCALE = 27u << 23;  // 2^-100

// The number of a code from 1 on, c - 3.
float eight_bit_value(uint code, uint fine) {
    uint c = code + 3u;
    uint m = uint(findMSB(c)) - 2u;
    uint exponent = (c >> m) + 119u + 4u * m - 4u * fine;
    uint bits = (exponent << 23) | ((c & ((1u << m) - 1u)) << (23u - m));
    return code == 0u ? 0.0 : uintBitsToFloat(bits);
}

// The code of the nearest number to r, which is at most 1; 0 below the least.
uint eight_bit_code(float r, uint fine) {
    uint bits = floatBitsToUint(r);
    uint exponent = bits >> 23;
    uint least = 123u - 4u * fine;
    if (exponent >= 127u) return (8u << fine) - 3u;
    if (exponent < least) return exponent == least - 1u ? 1u : 0u;
    uint level = (126u - exponent) >> 2;
    uint m = fine - level;
    uint rounded = (bits + (1u << (22u - m))) >> (23u - m);
    return rounded - ((119u - 4u * level) << m) - 3u;
}

float first_moment(uint byte, float scale) {
    precise float value = hlx_mul(scale, eight_bit_value(byte & 127u, 4u));
    return (byte & 128u) != 0u ? -value : value;
}

float second_moment(uint byte, float scale) {
    return hlx_mul(scale, eight_bit_value(byte - (byte > 127u ? 1u : 0u), 5u));
}

// The byte of a moment of a block whose scale, not 0 and finite, is given.
uint first_byte(float moment, float scale) {
    uint code = eight_bit_code(hlx_div(hlx_abs(moment), scale), 4u);
    bool negative = (floatBitsToUint(moment) & HLX_SIGN) != 0u;
    return code != 0u && negative ? code | 128u : code;
}

uint second_byte(float moment, float scale) {
    uint code = max(eight_bit_code(hlx_div(moment, scale), 5u), moment > 0.0 ? 1u : 0u);
    return code + (code > 126u ? 1u : 0u);
}

// The bits of the scale of a block whose largest magnitude has these bits.
uint eight_bit_scale(uint largest) {
    if (largest >= HLX_INFINITY) return HLX_NAN;
    return largest < SMALLEST_SCALE ? 0u : largest;
}
