// Whole numbers next to a float, by its bits; zeros keep the sign of x, NaN stays.
#include "arith.glsl"

float hlx_trunc(float x) {
    uint bits = floatBitsToUint(x);
    uint exponent = (bits >> 23) & 255u;
    uint fraction = exponent < 150u ? 0x007fffffu >> (exponent - 127u & 31u) : 0u;
    return uintBitsToFloat(bits & ~(exponent < 127u ? HLX_MAGNITUDE : fraction));
}

float hlx_floor(float x) {
    precise float whole = hlx_trunc(x);
    return x < whole ? hlx_sub(whole, 1.0) : whole;
}

float hlx_ceil(float x) {
    precise float whole = hlx_trunc(x);
    return x > whole ? hlx_add(whole, 1.0) : whole;
}

// From 2^23 on floats are whole, and a sum is rounded to them, ties to even.
float hlx_round(float x) {
    precise float size = hlx_abs(x);
    precise float rounded = hlx_sub(hlx_add(size, 8388608.0), 8388608.0);
    return size < 8388608.0 ? hlx_copysign(rounded, x) : x;
}
