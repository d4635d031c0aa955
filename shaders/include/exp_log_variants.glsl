// exp2, expm1, log2, log10 and log1p. Included by functions.glsl.

// 2^r for |r| <= 1/2.
float hlx_exp2_core(float r) {
    precise float p = hlx_fma(HLX_EXP2_5, r, HLX_EXP2_4);
    HLX_HORNER_3(p, r, HLX_EXP2)
    return hlx_fma(p, r, 1.0);
}

// 2^x; infinite from 128 on, +0 below -126. Exact for a whole x.
float hlx_exp2(float x) {
    precise float shifted = hlx_add(x, HLX_ROUND_MAGIC);
    uint n = floatBitsToUint(shifted) - floatBitsToUint(HLX_ROUND_MAGIC);
    precise float y = hlx_exp2_core(hlx_sub(x, hlx_sub(shifted, HLX_ROUND_MAGIC)));
    y = uintBitsToFloat(floatBitsToUint(y) + (n << 23));
    y = x >= 128.0 ? uintBitsToFloat(HLX_INFINITY) : y;
    y = x < -126.0 ? 0.0 : y;
    return hlx_isnan(x) ? x : y;
}

// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), all of it halved, since 2^128 is no float; infinite
// above 88.72283, keeps the sign of a zero.
float hlx_expm1(float x) {
    int n;
    precise float r = hlx_exp_reduce(x < HLX_EXPM1_LOW ? HLX_EXPM1_LOW : x, n);
    precise float half_scale = uintBitsToFloat(uint(n + 126) << 23);
    precise float y = hlx_fma(half_scale, hlx_expm1_core(r), hlx_sub(half_scale, 0.5));
    y = hlx_mul(2.0, y);
    y = x > HLX_EXP_HIGH ? uintBitsToFloat(HLX_INFINITY) : y;
    y = hlx_abs(x) < HLX_EXPM1_TINY ? hlx_flush(x) : y;
    return hlx_isnan(x) ? x : y;
}

// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)).
float hlx_log_tail(float f) {
    precise float square = hlx_mul(f, f);
    return hlx_fma(-0.5, square, hlx_mul(hlx_mul(square, f), hlx_log_series(f)));
}

// log2(x); -inf at both zeros, NaN below zero. Exact for a power of two.
float hlx_log2(float x) {
    int exponent;
    precise float f = hlx_sub(hlx_log_split(floatBitsToUint(x), exponent), 1.0);
    precise float w = hlx_fma(hlx_log_tail(f), HLX_LOG2E, hlx_mul(f, HLX_LOG2E_1));
    return hlx_log_special(x, hlx_add(float(exponent), hlx_fma(f, HLX_LOG2E, w)));
}

// log10(x); -inf at both zeros, NaN below zero.
float hlx_log10(float x) {
    int exponent;
    precise float f = hlx_sub(hlx_log_split(floatBitsToUint(x), exponent), 1.0);
    precise float e = float(exponent);
    precise float w = hlx_fma(f, HLX_LOG10E_1, hlx_mul(e, HLX_LOG10_2_1));
    w = hlx_fma(hlx_log_tail(f), HLX_LOG10E_0, w);
    return hlx_log_special(x, hlx_fma(e, HLX_LOG10_2_0, hlx_fma(f, HLX_LOG10E_0, w)));
}

// log(1 + x); -inf at -1, NaN below, keeps the sign of a zero. The exponent is that of the rounded
// 1 + x; 2^-e (1 + x) - 1 is rounded once from x.
float hlx_log1p(float x) {
    precise float u = hlx_add(1.0, x);
    int exponent;
    precise float m = hlx_log_split(floatBitsToUint(u), exponent);
    precise float e = float(exponent);
    precise float scale = uintBitsToFloat(uint(127 - exponent) << 23);
    precise float f = hlx_fma(scale, x, hlx_sub(scale, 1.0));
    // 2^-e may be no normal number, and 1 + x is x.
    f = x > HLX_LOG1P_HIGH ? hlx_sub(m, 1.0) : f;
    precise float square = hlx_mul(f, f);
    precise float w = hlx_mul(e, HLX_LN2_1);
    w = hlx_fma(hlx_mul(square, f), hlx_log_series(f), w);
    w = hlx_fma(-0.5, square, w);
    precise float y = hlx_log_special(u, hlx_fma(e, HLX_LN2_0, hlx_add(f, w)));
    return hlx_abs(x) < HLX_EXPM1_TINY ? hlx_flush(x) : y;
}
