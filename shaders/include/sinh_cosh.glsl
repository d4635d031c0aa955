// sinh and cosh. Included by functions.glsl.

// exp(size) / 2, and exp(-size) / 2 as scale * shrunk.
float hlx_half_exps(float size, out float scale, out float shrunk) {
    int n;
    precise float r = hlx_exp_reduce(size, n);
    precise float grown = hlx_add(1.0, hlx_expm1_core(r));
    precise float reciprocal = hlx_add(1.0, hlx_expm1_core(-r));
    shrunk = reciprocal;
    // Beyond 2^-65 the second exponential is lost in the first.
    uint places = n > 64 ? 64u : uint(n);
    scale = uintBitsToFloat((126u - places) << 23);
    return uintBitsToFloat(floatBitsToUint(grown) + ((uint(n) - 1u) << 23));
}

// sinh(x); infinite beyond 89.415985, keeps the sign of a zero.
float hlx_sinh(float x) {
    precise float size = hlx_abs(x);
    precise float z = hlx_mul(size, size);
    precise float p = hlx_fma(HLX_SINH_3, z, HLX_SINH_2);
    HLX_HORNER_1(p, z, HLX_SINH)
    precise float near = hlx_fma(hlx_mul(size, z), p, size);
    precise float scale;
    precise float shrunk;
    precise float half_grown = hlx_half_exps(size, scale, shrunk);
    precise float far = hlx_fma(-scale, shrunk, half_grown);
    precise float y = size < 1.0 ? near : far;
    y = size > HLX_COSH_HIGH ? uintBitsToFloat(HLX_INFINITY) : y;
    return hlx_isnan(x) ? x : hlx_flush(hlx_copysign(y, x));
}

// cosh(x); infinite beyond 89.415985.
float hlx_cosh(float x) {
    precise float size = hlx_abs(x);
    precise float scale;
    precise float shrunk;
    precise float half_grown = hlx_half_exps(size, scale, shrunk);
    precise float y = hlx_fma(scale, shrunk, half_grown);
    y = size > HLX_COSH_HIGH ? uintBitsToFloat(HLX_INFINITY) : y;
    return hlx_isnan(x) ? x : y;
}
