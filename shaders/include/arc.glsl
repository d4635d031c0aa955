// asin, acos, atan and atan2. Included by functions.glsl.

// s, and asin(s) - s in `rest`, where s is |x| up to 1/2 and sqrt((1 - |x|) / 2) beyond.
float hlx_asin_parts(float size, out float rest) {
    bool near = size <= 0.5;
    precise float z = near ? hlx_mul(size, size) : hlx_fma(-0.5, size, 0.5);
    precise float s = near ? size : hlx_sqrt(z);
    precise float p = hlx_fma(HLX_ASIN_4, z, HLX_ASIN_3);
    HLX_HORNER_2(p, z, HLX_ASIN)
    precise float product = hlx_mul(hlx_mul(s, z), p);
    rest = product;
    return s;
}

// asin(x); NaN beyond 1, keeps the sign of a zero. Beyond 1/2 it is
// pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
float hlx_asin(float x) {
    precise float size = hlx_abs(x);
    precise float rest;
    precise float s = hlx_asin_parts(size, rest);
    precise float twice = hlx_mul(2.0, s);
    precise float high = hlx_sub(HLX_PIO2_0, twice);
    precise float low = hlx_sub(hlx_sub(HLX_PIO2_0, high), twice);
    low = hlx_sub(low, hlx_fma(2.0, rest, -HLX_PIO2_1));
    precise float y = size <= 0.5 ? hlx_add(s, rest) : hlx_add(high, low);
    y = hlx_flush(hlx_copysign(y, x));
    return size <= 1.0 ? y : uintBitsToFloat(HLX_NAN);
}

// acos(x); NaN beyond 1. Up to 1/2 it is pi/2 - asin(x), beyond 2 asin(sqrt((1 - |x|) / 2)), taken
// from pi for a negative x.
float hlx_acos(float x) {
    precise float size = hlx_abs(x);
    precise float rest;
    precise float s = hlx_copysign(hlx_asin_parts(size, rest), x);
    rest = hlx_copysign(rest, x);
    precise float near = hlx_sub(HLX_PIO2_0, hlx_add(s, hlx_sub(rest, HLX_PIO2_1)));
    precise float far = hlx_mul(2.0, hlx_add(s, rest));
    far = x < 0.0 ? hlx_add(HLX_PI_0, hlx_add(far, HLX_PI_1)) : far;
    precise float y = size <= 0.5 ? near : far;
    return size <= 1.0 ? y : uintBitsToFloat(HLX_NAN);
}

// base + sign * atan(t) for t in [0, 1], a sign of 1 or -1 and a base of two parts, 0 or at least
// pi/2.
float hlx_atan_core(float t, float sign_, float base, float base_low) {
    precise float z = hlx_mul(t, t);
    precise float p = hlx_fma(HLX_ATAN_8, z, HLX_ATAN_7);
    HLX_HORNER_6(p, z, HLX_ATAN)
    precise float turned = hlx_mul(sign_, t);
    precise float rest = hlx_fma(hlx_mul(turned, z), p, base_low);
    return hlx_add(base, hlx_add(turned, rest));
}

// atan(x); keeps the sign of a zero. Beyond 1 it is pi/2 - atan(1 / |x|).
float hlx_atan(float x) {
    precise float size = hlx_abs(x);
    bool steep = size > 1.0;
    precise float t = steep ? hlx_div(1.0, size) : size;
    precise float base = steep ? HLX_PIO2_0 : 0.0;
    precise float base_low = steep ? HLX_PIO2_1 : 0.0;
    precise float y = hlx_atan_core(t, steep ? -1.0 : 1.0, base, base_low);
    return hlx_isnan(x) ? x : hlx_flush(hlx_copysign(y, x));
}

// The angle of the point (x, y), with the special values of C's atan2f.
float hlx_atan2(float y, float x) {
    precise float height = hlx_abs(hlx_flush(y));
    precise float width = hlx_abs(hlx_flush(x));
    bool steep = height > width;
    precise float small = steep ? width : height;
    precise float large = steep ? height : width;
    precise float t = hlx_div(small, large);
    t = large == 0.0 ? 0.0 : t;
    t = floatBitsToUint(small) == HLX_INFINITY ? 1.0 : t;
    bool left = (floatBitsToUint(x) & HLX_SIGN) != 0u;
    precise float base = steep ? HLX_PIO2_0 : (left ? HLX_PI_0 : 0.0);
    precise float base_low = steep ? HLX_PIO2_1 : (left ? HLX_PI_1 : 0.0);
    precise float angle = hlx_atan_core(t, steep != left ? -1.0 : 1.0, base, base_low);
    bool invalid = hlx_isnan(x) || hlx_isnan(y);
    return invalid ? uintBitsToFloat(HLX_NAN) : hlx_copysign(angle, y);
}
