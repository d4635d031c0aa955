// HLX arithmetic: binary32, round to nearest even, subnormals are zero on input and on output.
//
// The arithmetic is x86's FTZ + DAZ: a result whose value, rounded to 24 bits with an unbounded
// exponent, lies below 2^-126 becomes a zero of its sign. Devices that fuse and flush so by
// themselves run the bare instruction; for those that keep subnormals, or flush before rounding,
// the specialization constants choose an exact emulation (docs/numerics.md). Everything is
// `precise`: no contraction, no reassociation.
#include "buffers.glsl"

// 1 where the device's fma() is fused; set from the start-up probe.
layout(constant_id = 1000) const uint HLX_NATIVE_FMA = 1u;
// 1 where the device flushes subnormals, in and out, after rounding; set from the start-up probe.
layout(constant_id = 1001) const uint HLX_NATIVE_FLUSH = 1u;

const uint HLX_SIGN = 0x80000000u;
const uint HLX_MAGNITUDE = 0x7fffffffu;
const uint HLX_MIN_NORMAL = 0x00800000u;
const uint HLX_INFINITY = 0x7f800000u;
const uint HLX_NAN = 0x7fc00000u;

// The workgroup's linear index: launches spread many groups over x, y and z.
uint hlx_group() {
    return gl_WorkGroupID.x
        + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}

// A subnormal becomes a zero of its sign; anything else stays. Integer tests only: some
// compilers turn shifts of a float's bits into float compares.
float hlx_flush(float x) {
    uint bits = floatBitsToUint(x);
    uint kept = (bits & HLX_MAGNITUDE) < HLX_MIN_NORMAL ? (bits & HLX_SIGN) : bits;
    return uintBitsToFloat(kept);
}

// Reads a value that may hold any bits (tensors never store subnormals, raw inputs may).
float hlx_load(float x) {
    return hlx_flush(x);
}

float hlx_flush_input(float x) {
    return HLX_NATIVE_FLUSH != 0u ? x : hlx_flush(x);
}

// |x| by its bits.
float hlx_abs(float x) {
    return uintBitsToFloat(floatBitsToUint(x) & HLX_MAGNITUDE);
}

// |x| with the sign bit of `sign`.
float hlx_copysign(float x, float sign) {
    uint magnitude = floatBitsToUint(x) & HLX_MAGNITUDE;
    return uintBitsToFloat(magnitude | (floatBitsToUint(sign) & HLX_SIGN));
}

bool hlx_isnan(float x) {
    return (floatBitsToUint(x) & HLX_MAGNITUDE) > HLX_INFINITY;
}

// -0 becomes +0: the end of every chain of a product.
float hlx_pos0(float x) {
    uint bits = floatBitsToUint(x);
    return uintBitsToFloat((bits & HLX_MAGNITUDE) == 0u ? 0u : bits);
}

// Flushes `rounded`, the device's result. `scaled` is the same result times 2^64, far from the
// subnormals: it alone tells whether a result next to 2^-126 rounds to it. A device that keeps
// subnormals rounds too much to 2^-126, one that flushes before rounding too little.
float hlx_flush_result(float rounded, float scaled) {
    uint bits = floatBitsToUint(rounded);
    uint scaled_bits = floatBitsToUint(scaled);
    bool tiny = (bits & HLX_MAGNITUDE) <= HLX_MIN_NORMAL;
    uint flushed = tiny ? (bits & HLX_SIGN) : bits;
    bool smallest = (scaled_bits & HLX_MAGNITUDE) == 0x20800000u; // 2^-62
    return uintBitsToFloat(smallest ? ((scaled_bits & HLX_SIGN) | HLX_MIN_NORMAL) : flushed);
}

float hlx_add(float a, float b) {
    precise float sum = hlx_flush_input(a) + hlx_flush_input(b);
    return hlx_flush_input(sum); // a tiny sum is exact
}

float hlx_sub(float a, float b) {
    precise float difference = hlx_flush_input(a) - hlx_flush_input(b);
    return hlx_flush_input(difference);
}

float hlx_mul(float a, float b) {
    if (HLX_NATIVE_FLUSH != 0u) {
        precise float product = a * b;
        return product;
    }
    precise float x = hlx_flush(a);
    precise float y = hlx_flush(b);
    precise float product = x * y;
    bool x_small = hlx_abs(x) < hlx_abs(y);
    precise float small = x_small ? x : y;
    precise float large = x_small ? y : x;
    precise float lifted = small * 18446744073709551616.0; // 2^64
    precise float scaled = lifted * large;
    return hlx_flush_result(product, scaled);
}

// s + error = a + b exactly (Knuth).
float hlx_two_sum(float a, float b, out float error) {
    precise float s = a + b;
    precise float b_part = s - a;
    precise float a_part = s - b_part;
    precise float b_error = b - b_part;
    precise float a_error = a - a_part;
    precise float e = a_error + b_error;
    error = e;
    return s;
}

// a + b rounded to odd: a second rounding to nearest then rounds as one would have.
float hlx_odd_sum(float a, float b) {
    precise float error;
    precise float s = hlx_two_sum(a, b, error);
    uint bits = floatBitsToUint(s);
    bool inexact = (floatBitsToUint(error) & HLX_MAGNITUDE) != 0u;
    bool away = ((floatBitsToUint(error) ^ bits) & HLX_SIGN) == 0u;
    uint odd = inexact && (bits & 1u) == 0u ? (away ? bits + 1u : bits - 1u) : bits;
    return uintBitsToFloat(odd);
}

// The fused a * b + c without a fused instruction, exact for every input: the significands are
// multiplied exactly (Dekker), c is moved to their scale, and the three terms are added with one
// rounding through round-to-odd (Boldo and Melquiond 2008). Exponents are integers apart, so
// nothing overflows or underflows before the last step.
float hlx_soft_fma(float a, float b, float c) {
    uint a_bits = floatBitsToUint(a);
    uint b_bits = floatBitsToUint(b);
    uint c_bits = floatBitsToUint(c);
    int a_exp = int((a_bits >> 23) & 255u);
    int b_exp = int((b_bits >> 23) & 255u);
    int c_exp = int((c_bits >> 23) & 255u);

    // Exact product of the significands: high + low.
    precise float x = uintBitsToFloat((a_bits & 0x807fffffu) | 0x3f800000u);
    precise float y = uintBitsToFloat((b_bits & 0x807fffffu) | 0x3f800000u);
    precise float x_high = uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u);
    precise float y_high = uintBitsToFloat(floatBitsToUint(y) & 0xfffff000u);
    precise float x_low = x - x_high;
    precise float y_low = y - y_high;
    precise float high = x * y;
    precise float high_high = x_high * y_high;
    precise float high_low = x_high * y_low;
    precise float low_high = x_low * y_high;
    precise float low_low = x_low * y_low;
    precise float low = ((high_high - high) + high_low + low_high) + low_low;

    // c at the product's scale; past 2^60 on either side only its sign matters to the other.
    int distance = c_exp - a_exp - b_exp + 127;
    int near = clamp(distance, -60, 60);
    int scale = distance > 60 ? c_exp - 187 : a_exp + b_exp - 254;
    uint c_scaled = ((c_bits & 0x807fffffu) | 0x3f800000u) + (uint(near) << 23);
    precise float z = uintBitsToFloat(c_exp == 0 ? (c_bits & HLX_SIGN) : c_scaled);

    precise float tail_error;
    precise float tail = hlx_two_sum(z, low, tail_error);
    precise float sum_error;
    precise float sum = hlx_two_sum(high, tail, sum_error);
    precise float odd = hlx_odd_sum(sum_error, tail_error);
    precise float rounded = sum + odd;

    uint r_bits = floatBitsToUint(rounded);
    int r_exp = int((r_bits >> 23) & 255u) + scale;
    uint r_sign = r_bits & HLX_SIGN;
    uint finite = (r_bits & HLX_MAGNITUDE) == 0u ? r_bits : r_bits + (uint(scale) << 23);
    uint bits = r_exp <= 0 ? r_sign : finite;
    bits = r_exp >= 255 ? (r_sign | HLX_INFINITY) : bits;

    // A zero or non-finite factor: the product is exact. A non-finite c alone: c.
    bool product_special = a_exp == 0 || b_exp == 0 || a_exp == 255 || b_exp == 255;
    precise float product = hlx_flush(a) * hlx_flush(b);
    precise float special = product + hlx_flush(c);
    bits = product_special ? floatBitsToUint(special) : (c_exp == 255 ? c_bits : bits);
    return uintBitsToFloat(bits);
}

// fma of a device that fuses, but keeps subnormals or flushes before rounding.
float hlx_flushed_fma(float a, float b, float c) {
    precise float x = hlx_flush(a);
    precise float y = hlx_flush(b);
    precise float z = hlx_flush(c);
    precise float rounded = fma(x, y, z);
    bool x_small = hlx_abs(x) < hlx_abs(y);
    precise float small = x_small ? x : y;
    precise float large = x_small ? y : x;
    precise float lifted = small * 18446744073709551616.0; // 2^64
    precise float z_lifted = z * 18446744073709551616.0;
    precise float scaled = fma(lifted, large, z_lifted);
    return hlx_flush_result(rounded, scaled);
}

// a * b + c, rounded once.
float hlx_fma(float a, float b, float c) {
    if (HLX_NATIVE_FMA == 0u) {
        return hlx_soft_fma(a, b, c);
    }
    if (HLX_NATIVE_FLUSH == 0u) {
        return hlx_flushed_fma(a, b, c);
    }
    precise float result = fma(a, b, c);
    return result;
}

// The larger; b where they are equal (so the second zero of two); NaN if either is NaN.
float hlx_max(float a, float b) {
    return a > b || hlx_isnan(a) ? a : b;
}
