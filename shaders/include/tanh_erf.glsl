// tanh and erf. Included by math.glsl.

// tanh(x) = (1 - e) / (1 + e) with e = exp(-2|x|); tanh(-x) = -tanh(x), zeros keep their sign.
// Numerator and denominator are each rounded once from e = 2^n + 2^n (exp(r) - 1).
float hlx_tanh(float x) {
    precise float size = hlx_abs(x);
    precise float capped = size > HLX_TANH_HIGH ? HLX_TANH_HIGH : size;
    int n;
    precise float r = hlx_exp_reduce(hlx_mul(-2.0, capped), n);
    precise float scale = uintBitsToFloat(uint(n + 127) << 23);
    precise float core = hlx_expm1_core(r);
    precise float numerator = hlx_fma(scale, -core, hlx_sub(1.0, scale));
    precise float y = hlx_div_core(numerator, hlx_fma(scale, core, hlx_add(1.0, scale)));
    y = size < HLX_TINY_ANGLE ? size : y;
    return hlx_isnan(x) ? x : hlx_flush(hlx_copysign(y, x));
}

// erf(x): x + x P(x^2) below 7/8, 1 - exp(-x Q(x)) above; erf(-x) = -erf(x).
float hlx_erf(float x) {
    precise float size = hlx_abs(x);
    precise float t = size > HLX_ERF_HIGH ? HLX_ERF_HIGH : size;

    precise float z = hlx_mul(t, t);
    precise float p = hlx_fma(HLX_ERF_5, z, HLX_ERF_4);
    HLX_HORNER_3(p, z, HLX_ERF)
    precise float near = hlx_fma(p, t, t);

    precise float q = hlx_fma(HLX_ERFC_5, t, HLX_ERFC_4);
    HLX_HORNER_3(q, t, HLX_ERFC)
    precise float far = hlx_sub(1.0, hlx_exp_core(hlx_mul(-t, q)));

    precise float y = size < HLX_ERF_SPLIT ? near : far;
    // (lavapipe of Mesa 26.2 keeps a subnormal t as it is.)
    return hlx_isnan(x) ? x : hlx_flush(hlx_copysign(y, x));
}
