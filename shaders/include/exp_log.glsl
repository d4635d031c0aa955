// exp, sigmoid and log. Included by math.glsl.

// exp(r) - 1 for |r| <= ln(2)/2.
float hlx_expm1_core(float r) {
    precise float p = hlx_fma(HLX_EXP_4, r, HLX_EXP_3);
    HLX_HORNER_2(p, r, HLX_EXP)
    return hlx_fma(hlx_mul(r, r), p, r);
}

// x = n ln 2 + r: returns r, and n in `n`; |x| <= 2^20.
float hlx_exp_reduce(float x, out int n) {
    precise float shifted = hlx_fma(x, HLX_LOG2E, HLX_ROUND_MAGIC);
    n = int(floatBitsToUint(shifted) - floatBitsToUint(HLX_ROUND_MAGIC));
    precise float whole = hlx_sub(shifted, HLX_ROUND_MAGIC);
    precise float r = hlx_fma(whole, -HLX_LN2_0, x);
    return hlx_fma(whole, -HLX_LN2_1, r);
}

// exp(x) for EXP_LOW <= x <= EXP_HIGH.
float hlx_exp_core(float x) {
    int n;
    precise float r = hlx_exp_reduce(x, n);
    precise float y = hlx_add(1.0, hlx_expm1_core(r));
    return uintBitsToFloat(floatBitsToUint(y) + (uint(n) << 23));
}

// exp(x); infinite above 88.72283, +0 below -87.33654.
float hlx_exp(float x) {
    precise float y = hlx_exp_core(x);
    y = x > HLX_EXP_HIGH ? uintBitsToFloat(HLX_INFINITY) : y;
    y = x < HLX_EXP_LOW ? 0.0 : y;
    return hlx_isnan(x) ? x : y;
}

// 1 / (1 + exp(-x)), without overflow; +0 below -87.33654.
float hlx_sigmoid(float x) {
    precise float e = hlx_exp(uintBitsToFloat(floatBitsToUint(x) | HLX_SIGN));
    bool below = x < 0.0;
    precise float numerator = below ? e : 1.0;
    precise float denominator = hlx_add(1.0, e);
    precise float y = hlx_div_core(numerator, denominator);
    // What the denominator's rounding lost, to first order.
    precise float lost = hlx_sub(e, hlx_sub(denominator, 1.0));
    precise float reciprocal = below ? hlx_sub(1.0, y) : y;
    y = hlx_fma(hlx_mul(y, lost), -reciprocal, y);
    return hlx_isnan(x) ? x : y;
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)), for the bits of a normal x: returns m, and e in
// `exponent`.
float hlx_log_split(uint bits, out int exponent) {
    exponent = int(bits - HLX_SQRT_HALF) >> 23;
    return uintBitsToFloat(bits - (uint(exponent) << 23));
}

// (log(1 + f) - f + f^2/2) / f^3 for 1 + f in [sqrt(1/2), sqrt(2)).
float hlx_log_series(float f) {
    precise float p = hlx_fma(HLX_LOG_7, f, HLX_LOG_6);
    p = hlx_fma(p, f, HLX_LOG_5);
    p = hlx_fma(p, f, HLX_LOG_4);
    p = hlx_fma(p, f, HLX_LOG_3);
    p = hlx_fma(p, f, HLX_LOG_2);
    p = hlx_fma(p, f, HLX_LOG_1);
    return hlx_fma(p, f, HLX_LOG_0);
}

// A logarithm's value y of x, or what it is of zeros, infinity, NaN and below zero.
float hlx_log_special(float x, float y) {
    uint bits = floatBitsToUint(x);
    uint result = bits >= HLX_INFINITY ? HLX_NAN : floatBitsToUint(y);
    result = bits == HLX_INFINITY ? bits : result;
    bool zero = (bits & HLX_MAGNITUDE) < HLX_MIN_NORMAL;
    return uintBitsToFloat(zero ? (HLX_INFINITY | HLX_SIGN) : result);
}

// log(x); -inf at both zeros, NaN below zero.
float hlx_log(float x) {
    int exponent;
    precise float m = hlx_log_split(floatBitsToUint(x), exponent);
    precise float e = float(exponent);
    precise float f = hlx_sub(m, 1.0);
    precise float p = hlx_log_series(f);
    precise float square = hlx_mul(f, f);
    precise float w = hlx_fma(hlx_mul(square, f), p, hlx_mul(e, HLX_LN2_1));
    w = hlx_fma(-0.5, square, w);
    return hlx_log_special(x, hlx_fma(e, HLX_LN2_0, hlx_add(f, w)));
}
