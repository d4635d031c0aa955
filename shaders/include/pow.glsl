// pow: the logarithm as an unevaluated sum of two floats, then 2^p. Included by functions.glsl.

// log2(a) for a normal a, to about 2^-36 of itself: returns its upper part, and the rest in `low`.
//
// a = 2^e m, s = (m - 1) / (m + 1), log2(m) = s (K + K3 s^2 + s^4 Q(s^2)); what rounding loses of
// each but the last term is carried along (fma gives a product's error, Dekker's sum that of a
// sum).
float hlx_log2_pair(float a, out float low) {
    int exponent;
    precise float m = hlx_log_split(floatBitsToUint(a), exponent);
    precise float e = float(exponent);
    precise float f = hlx_sub(m, 1.0);
    precise float d = hlx_add(m, 1.0);
    precise float d_low = hlx_sub(m, hlx_sub(d, 1.0));
    precise float y = hlx_fma(d, HLX_POW_RECIP_2, HLX_POW_RECIP_1);
    y = hlx_fma(y, d, HLX_POW_RECIP_0);
    precise float error = hlx_fma(-d, y, 1.0);
    y = hlx_fma(y, hlx_fma(error, error, error), y);
    precise float s = hlx_mul(f, y);
    precise float s_low = hlx_mul(hlx_fma(-s, d_low, hlx_fma(-s, d, f)), y);

    precise float z = hlx_mul(s, s);
    precise float z_low = hlx_fma(hlx_add(s, s), s_low, hlx_fma(s, s, -z));
    precise float q = hlx_fma(HLX_POW_LOG_2, z, HLX_POW_LOG_1);
    q = hlx_fma(q, z, HLX_POW_LOG_0);
    precise float t = hlx_fma(z, q, HLX_POW_K3_1);
    precise float u = hlx_add(HLX_POW_K3_0, t);
    precise float u_low = hlx_sub(t, hlx_sub(u, HLX_POW_K3_0));
    precise float v = hlx_mul(z, u);
    precise float v_low = hlx_fma(z_low, u, hlx_fma(z, u_low, hlx_fma(z, u, -v)));
    precise float w = hlx_add(HLX_POW_K_0, v);
    precise float w_low = hlx_sub(v, hlx_sub(w, HLX_POW_K_0));
    w_low = hlx_add(w_low, hlx_add(HLX_POW_K_1, v_low));
    precise float log_high = hlx_mul(s, w);
    precise float log_low = hlx_fma(s, w_low, hlx_fma(s, w, -log_high));
    log_low = hlx_fma(s_low, w, log_low);

    precise float high = hlx_add(e, log_high);
    precise float rest = hlx_add(hlx_sub(log_high, hlx_sub(high, e)), log_low);
    low = rest;
    return high;
}

// The bits of a^y for a normal a and a finite y: +0 and +infinity where it is too small or too
// large.
uint hlx_pow_core(float a, float y) {
    precise float low;
    precise float high = hlx_log2_pair(a, low);
    precise float p = hlx_mul(y, high);
    precise float p_low = hlx_fma(y, low, hlx_fma(y, high, -p));
    precise float shifted = hlx_add(p, HLX_ROUND_MAGIC);
    uint n = floatBitsToUint(shifted) - floatBitsToUint(HLX_ROUND_MAGIC);
    precise float r = hlx_add(hlx_sub(p, hlx_sub(shifted, HLX_ROUND_MAGIC)), p_low);
    uint bits = floatBitsToUint(hlx_exp2_core(r)) + (n << 23);
    bits = bits < HLX_MIN_NORMAL ? 0u : bits;
    bits = p > HLX_POW_HIGH || bits > HLX_INFINITY ? HLX_INFINITY : bits;
    return p < HLX_POW_LOW ? 0u : bits;
}

// Whether a y that is not NaN is whole, and in `odd` whether it is odd; infinity is whole and even.
bool hlx_is_whole(float y, out bool odd) {
    uint bits = floatBitsToUint(y);
    int exponent = int((bits >> 23) & 255u) - 127;
    uint significand = (bits & 0x007fffffu) | HLX_MIN_NORMAL;
    uint places = uint(clamp(23 - exponent, 0, 24));
    bool whole = (significand & ((1u << places) - 1u)) == 0u;
    odd = whole && exponent <= 23 && ((significand >> places) & 1u) == 1u;
    return whole;
}

// x^y, with the special values of C's powf.
float hlx_pow(float x, float y) {
    uint x_bits = floatBitsToUint(hlx_flush(x));
    precise float exponent = hlx_flush(y);
    uint y_bits = floatBitsToUint(exponent);
    uint a = x_bits & HLX_MAGNITUDE;
    bool negative = (x_bits & HLX_SIGN) != 0u;
    bool odd;
    bool whole = hlx_is_whole(exponent, odd);
    bool grows = (y_bits & HLX_SIGN) == 0u;
    uint bits = hlx_pow_core(uintBitsToFloat(a), exponent);
    bits = a == 0u ? (grows ? 0u : HLX_INFINITY) : bits;
    bits = a == HLX_INFINITY ? (grows ? HLX_INFINITY : 0u) : bits;
    bits = a == HLX_ONE ? HLX_ONE : bits;
    bits |= odd ? x_bits & HLX_SIGN : 0u;

    bool invalid = negative && a != 0u && a != HLX_INFINITY && !whole;
    invalid = invalid || a > HLX_INFINITY || (y_bits & HLX_MAGNITUDE) > HLX_INFINITY;
    bits = invalid ? HLX_NAN : bits;
    bool one = x_bits == HLX_ONE || (y_bits & HLX_MAGNITUDE) == 0u;
    return uintBitsToFloat(one ? HLX_ONE : bits);
}
