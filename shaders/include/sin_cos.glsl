// sin and cos. Included by math.glsl.

// x = n pi/2 + r for |x| <= 2^17, except for the third part of pi/2: returns r, n in `n`, and n as a
// float in `whole`. The first product is exact under fma.
float hlx_angle_parts(float x, out float whole, out uint n) {
    precise float shifted = hlx_fma(x, HLX_TWO_OVER_PI, HLX_ROUND_MAGIC);
    n = floatBitsToUint(shifted) - floatBitsToUint(HLX_ROUND_MAGIC);
    precise float turns = hlx_sub(shifted, HLX_ROUND_MAGIC);
    whole = turns;
    precise float r = hlx_fma(turns, -HLX_PIO2_0, x);
    return hlx_fma(turns, -HLX_PIO2_1, r);
}

// x = n pi/2 + r for |x| <= 2^17: returns r, and n in `n`.
float hlx_angle_reduce(float x, out uint n) {
    precise float whole;
    precise float r = hlx_angle_parts(x, whole, n);
    return hlx_fma(whole, -HLX_PIO2_2, r);
}

// 32 bits of 2/pi from bit `start` on; bit 32 is the first after the point.
uint hlx_two_over_pi_bits(uint start) {
    const uint words[8] = uint[8](
        0u, HLX_TWO_OVER_PI_WORD_0, HLX_TWO_OVER_PI_WORD_1, HLX_TWO_OVER_PI_WORD_2,
        HLX_TWO_OVER_PI_WORD_3, HLX_TWO_OVER_PI_WORD_4, HLX_TWO_OVER_PI_WORD_5,
        HLX_TWO_OVER_PI_WORD_6);
    uint word_idx = start >> 5;
    uint shift = start & 31u;
    uint next = shift == 0u ? 0u : words[word_idx + 1u] >> (32u - shift);
    return (words[word_idx] << shift) | next;
}

// The same for |x| > 2^17 in integers (Payne and Hanek 1983). Of x * 2/pi modulo 4 the upper 64
// bits are used, two of them before the point.
float hlx_large_angle_reduce(float x, out uint n) {
    uint bits = floatBitsToUint(x);
    uint significand = (bits & 0x007fffffu) | HLX_MIN_NORMAL;
    uint start = ((bits >> 23) & 255u) - 120u; // the bits before it give multiples of 4
    uint high_1, low_1, high_2, low_2, carry;
    umulExtended(significand, hlx_two_over_pi_bits(start + 32u), high_1, low_1);
    umulExtended(significand, hlx_two_over_pi_bits(start + 64u), high_2, low_2);
    uint low = uaddCarry(low_1, high_2, carry);
    uint high = significand * hlx_two_over_pi_bits(start) + high_1 + carry;

    uint quadrant = (high + 0x20000000u) >> 30;
    high -= quadrant << 30;
    bool negative = (high & HLX_SIGN) != 0u;
    high = negative ? ~high + (low == 0u ? 1u : 0u) : high;
    low = negative ? ~low + 1u : low;

    // The leading 48 bits as two floats.
    uint shift = high != 0u ? uint(31 - findMSB(high)) : uint(63 - findMSB(low | 1u));
    uint kept = shift & 31u;
    uint spill = kept == 0u ? 0u : low >> (32u - kept);
    uint top = shift < 32u ? (high << kept) | spill : low << kept;
    uint rest = shift < 32u ? low << kept : 0u;
    precise float scale = uintBitsToFloat((105u - shift) << 23);
    precise float f_0 = hlx_mul(float(top >> 8), scale);
    precise float f_1 = hlx_mul(float(((top & 255u) << 16) | (rest >> 16)), hlx_mul(scale, HLX_TWO_M24));
    precise float r = hlx_fma(f_0, HLX_PIO2_1, hlx_mul(f_1, HLX_PIO2_0));
    r = hlx_fma(f_0, HLX_PIO2_0, r);

    bool flip = (bits & HLX_SIGN) != 0u;
    n = flip ? 0u - quadrant : quadrant;
    return negative != flip ? -r : r;
}

// sin(r + n pi/2) for |r| <= pi/4.
float hlx_quadrant_sin(float r, uint n) {
    precise float z = hlx_mul(r, r);
    precise float s = hlx_fma(HLX_SIN_2, z, HLX_SIN_1);
    s = hlx_fma(s, z, HLX_SIN_0);
    s = hlx_fma(hlx_mul(z, r), s, r);
    precise float c = hlx_fma(HLX_COS_2, z, HLX_COS_1);
    c = hlx_fma(c, z, HLX_COS_0);
    c = hlx_fma(hlx_mul(z, z), c, hlx_fma(z, -0.5, 1.0));
    precise float y = (n & 1u) == 0u ? s : c;
    return uintBitsToFloat(floatBitsToUint(y) ^ ((n & 2u) << 30));
}

float hlx_reduce(float x, out uint n) {
    if (hlx_abs(x) > HLX_ANGLE_HIGH) {
        return hlx_large_angle_reduce(x, n);
    }
    return hlx_angle_reduce(x, n);
}

// x = n pi/2 + r + low with |r| <= pi/4: returns r, and n and low in their places.
float hlx_reduce_pair(float x, out float low, out uint n) {
    if (hlx_abs(x) > HLX_ANGLE_HIGH) {
        low = 0.0;
        return hlx_large_angle_reduce(x, n);
    }
    precise float whole;
    precise float r = hlx_angle_parts(x, whole, n);
    precise float third = hlx_mul(whole, -HLX_PIO2_2);
    low = third;
    return r;
}

// sin(x); NaN for infinities.
float hlx_sin(float x) {
    uint n;
    precise float r = hlx_reduce(x, n);
    precise float y = hlx_quadrant_sin(r, n);
    precise float size = hlx_abs(x);
    y = size < HLX_TINY_ANGLE ? hlx_flush(x) : y;
    return floatBitsToUint(size) >= HLX_INFINITY ? uintBitsToFloat(HLX_NAN) : y;
}

// cos(x); NaN for infinities.
float hlx_cos(float x) {
    uint n;
    precise float r = hlx_reduce(x, n);
    precise float y = hlx_quadrant_sin(r, n + 1u);
    return (floatBitsToUint(x) & HLX_MAGNITUDE) >= HLX_INFINITY ? uintBitsToFloat(HLX_NAN) : y;
}
