// tan. Included by functions.glsl.

// tan(x); NaN for infinities, keeps the sign of a zero. x = n pi/2 + r + low;
// tan(r) = r + r^3 T(r^2), and -1 / tan(r) for an odd n, from the reciprocal of the rounded tan(r)
// and what its rounding lost.
float hlx_tan(float x) {
    precise float low;
    uint n;
    precise float r = hlx_reduce_pair(x, low, n);
    precise float z = hlx_mul(r, r);
    precise float p = hlx_fma(HLX_TAN_6, z, HLX_TAN_5);
    HLX_HORNER_4(p, z, HLX_TAN)
    precise float cube = hlx_mul(z, r);
    precise float t = hlx_fma(cube, p, r);
    precise float t_low = hlx_fma(cube, p, hlx_sub(r, t));
    t_low = hlx_fma(low, hlx_fma(t, t, 1.0), t_low);
    // Near a multiple of pi/2 t_low is no small part of t.
    precise float high = hlx_add(t, t_low);
    low = hlx_sub(t_low, hlx_sub(high, t));
    precise float q = hlx_div(1.0, high);
    precise float error = hlx_fma(-q, low, hlx_fma(-q, high, 1.0));
    precise float cotangent = hlx_fma(q, error, q);
    precise float y = (n & 1u) == 0u ? high : -cotangent;
    precise float size = hlx_abs(x);
    y = size < HLX_TINY_ANGLE ? hlx_flush(x) : y;
    return floatBitsToUint(size) >= HLX_INFINITY ? uintBitsToFloat(HLX_NAN) : y;
}
