// Division, square root (both correctly rounded) and reciprocal root. Included by math.glsl.

// a / b for b in [1, 2] and a = 0 or 2^-64 <= |a| < 2^64: correctly rounded.
//
// A quadratic seed (1e-2), a cubic step (1e-6) and a Newton step give 1/b correctly rounded for
// every significand that matters but those near 2: 1/(2 - j 2^-23) = 1/2 + j 2^-25 + j^2 2^-49
// lies just above a midpoint for odd j, so there the rounded value is written down. Two
// corrections by the residual then round the quotient correctly (Markstein 1990).
float hlx_div_core(float a, float b) {
    precise float y = hlx_fma(b, HLX_RECIP_2, HLX_RECIP_1);
    y = hlx_fma(y, b, HLX_RECIP_0);
    precise float e = hlx_fma(-b, y, 1.0);
    y = hlx_fma(y, hlx_fma(e, e, e), y);
    e = hlx_fma(-b, y, 1.0);
    y = hlx_fma(y, e, y);
    uint near_2 = (0xbe000001u - floatBitsToUint(b)) >> 1;
    y = floatBitsToUint(b) >= HLX_RECIP_NEAR_2 ? uintBitsToFloat(near_2) : y;
    precise float q = hlx_mul(a, y);
    precise float r = hlx_fma(-b, q, a);
    q = hlx_fma(r, y, q);
    r = hlx_fma(-b, q, a);
    return hlx_fma(r, y, q);
}

// a / b, correctly rounded. x/0 is infinite, 0/0 and inf/inf are NaN.
float hlx_div(float a, float b) {
    uint a_bits = floatBitsToUint(a);
    uint b_bits = floatBitsToUint(b);
    int a_exp = int((a_bits >> 23) & 255u);
    int b_exp = int((b_bits >> 23) & 255u);
    uint sign = (a_bits ^ b_bits) & HLX_SIGN;
    precise float q = hlx_div_core(
        uintBitsToFloat((a_bits & 0x007fffffu) | 0x3f800000u),
        uintBitsToFloat((b_bits & 0x007fffffu) | 0x3f800000u));
    int shift = a_exp - b_exp;
    int q_exp = int(floatBitsToUint(q) >> 23) + shift;
    uint bits = floatBitsToUint(q) + (uint(shift) << 23);
    bits = q_exp <= 0 ? 0u : bits;
    bits = q_exp >= 255 ? HLX_INFINITY : bits;

    // Zeros and non-finite operands.
    bits = a_exp == 0 || b_exp == 255 ? 0u : bits;
    bits = b_exp == 0 || a_exp == 255 ? HLX_INFINITY : bits;
    bool invalid = (a_exp == 0 && b_exp == 0) || (a_exp == 255 && b_exp == 255);
    invalid = invalid || hlx_isnan(a) || hlx_isnan(b);
    return uintBitsToFloat(invalid ? HLX_NAN : (bits | sign));
}

// 1 / sqrt(x) within 1e-4, for a normal x.
float hlx_rsqrt_seed(float x) {
    precise float y = uintBitsToFloat(HLX_RSQRT_SEED - (floatBitsToUint(x) >> 1));
    precise float e = hlx_fma(hlx_mul(-x, y), y, 1.0);
    precise float step_ = hlx_mul(e, hlx_fma(e, HLX_THREE_EIGHTHS, 0.5));
    return hlx_fma(y, step_, y);
}

// sqrt(x), correctly rounded; sqrt(-0) = -0, NaN below zero.
float hlx_sqrt(float x) {
    uint bits = floatBitsToUint(x);
    bool is_small = x < HLX_TWO_M62;
    precise float m = hlx_mul(x, is_small ? HLX_TWO_64 : 1.0);
    precise float y = hlx_rsqrt_seed(m);
    precise float g = hlx_mul(m, y);
    precise float h = hlx_mul(0.5, y);
    precise float e = hlx_fma(-g, h, 0.5);
    g = hlx_fma(g, e, g);
    h = hlx_fma(h, e, h);
    precise float d = hlx_fma(-g, g, m);
    g = hlx_fma(d, h, g);
    precise float root = hlx_mul(g, is_small ? HLX_TWO_M32 : 1.0);

    uint result = bits >= HLX_INFINITY ? HLX_NAN : floatBitsToUint(root);
    result = bits == HLX_INFINITY ? bits : result;
    bool zero = (bits & HLX_MAGNITUDE) < HLX_MIN_NORMAL;
    return uintBitsToFloat(zero ? (bits & HLX_SIGN) : result);
}

// 1 / sqrt(x); infinite at both zeros, NaN below zero.
float hlx_rsqrt(float x) {
    uint bits = floatBitsToUint(x);
    precise float y = hlx_rsqrt_seed(x);
    precise float t = hlx_mul(x, y);
    precise float t_error = hlx_fma(x, y, -t);
    precise float e = hlx_fma(-t, y, 1.0);
    e = hlx_fma(-t_error, y, e);
    precise float root = hlx_fma(hlx_mul(0.5, y), e, y);

    uint result = bits >= HLX_INFINITY ? HLX_NAN : floatBitsToUint(root);
    result = bits == HLX_INFINITY ? 0u : result;
    bool zero = (bits & HLX_MAGNITUDE) < HLX_MIN_NORMAL;
    return uintBitsToFloat(zero ? HLX_INFINITY : result);
}
