// Values of elements converted to the type that a kernel computes in, and results to the type that
// is stored (docs/numerics.md).
//
// A compute type is f32, i32 or u32. Integers become f32 by rounding to nearest even. A float
// becomes an integer by truncation, saturated at the type's ends; NaN becomes 0. Integers wrap.
// Whatever is not zero becomes `true`, NaN too. f16 and bf16 are rounded to nearest even; their NaN
// is the canonical one.
#include "arith.glsl"
#include "element.glsl"

// Two bytes that are copied as they are: no DType, but a kind of load and of store.
const uint HLX_RAW16 = 8u;

// The logarithm of a type's elements per word.
uint hlx_shift(uint dtype) {
    if (dtype == HLX_F16 || dtype == HLX_BF16 || dtype == HLX_RAW16) return 1u;
    return dtype >= HLX_I8 ? 2u : 0u;
}

// Both halves are exact in f32, and their sum is rounded once; Vulkan leaves the rounding of a
// conversion open.
float hlx_float_of_int(uint word) {
    precise float high = float(int(word) >> 16) * 65536.0;
    precise float sum = high + float(word & 0xffffu);
    return sum;
}

float hlx_float_of_uint(uint word) {
    precise float high = float(word >> 16) * 65536.0;
    precise float sum = high + float(word & 0xffffu);
    return sum;
}

uint hlx_int_of_float(float x) {
    bool inside = x < 2147483648.0 && x > -2147483648.0;
    uint beyond = hlx_isnan(x) ? 0u : (x > 0.0 ? 0x7fffffffu : 0x80000000u);
    return inside ? uint(int(inside ? x : 0.0)) : beyond;
}

uint hlx_uint_of_float(float x) {
    bool inside = x < 4294967296.0 && x > 0.0;
    uint beyond = !hlx_isnan(x) && x > 0.0 ? 0xffffffffu : 0u;
    return inside ? uint(inside ? x : 0.0) : beyond;
}

// Below 2^-14 an f16 counts steps of 2^-24, the distance of floats from 0.5 on: adding it rounds.
uint hlx_f16_of_float(uint bits) {
    uint magnitude = bits & HLX_MAGNITUDE;
    precise float shifted = uintBitsToFloat(min(magnitude, 0x38800000u)) + 0.5;
    uint rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
    uint result = magnitude < 0x38800000u ? floatBitsToUint(shifted) - 0x3f000000u : rounded >> 13;
    result = magnitude >= 0x47800000u ? 0x7c00u : result;
    return magnitude > HLX_INFINITY ? 0x7e00u : result | ((bits & HLX_SIGN) >> 16);
}

uint hlx_bf16_of_float(uint bits) {
    uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bits & HLX_MAGNITUDE) > HLX_INFINITY ? 0x7fc0u : rounded;
}

// Element i, out of its word, as a value of the compute type.
uint hlx_decode(uint dtype, uint compute, uint word, uint i) {
    if (dtype == HLX_RAW16) return (word >> (16u * (i & 1u))) & 0xffffu;
    uint value = hlx_widen(dtype, word, i);
    if (compute != HLX_F32 || hlx_is_float(dtype)) return value;
    if (hlx_is_signed(dtype)) return floatBitsToUint(hlx_float_of_int(value));
    return floatBitsToUint(hlx_float_of_uint(value));
}

// A value of the compute type as the bits that a type stores, all others zero.
uint hlx_encode(uint dtype, uint compute, uint value) {
    bool from_float = compute == HLX_F32;
    if (dtype == HLX_F16) return hlx_f16_of_float(value);
    if (dtype == HLX_BF16) return hlx_bf16_of_float(value);
    if (dtype == HLX_BOOL)
        return (from_float ? value & HLX_MAGNITUDE : value) != 0u ? 1u : 0u;
    if (from_float && dtype == HLX_U32) return hlx_uint_of_float(uintBitsToFloat(value));
    if (from_float && dtype >= HLX_I32) {
        value = hlx_int_of_float(uintBitsToFloat(value));
        if (dtype == HLX_I8) value = uint(clamp(int(value), -128, 127));
        if (dtype == HLX_U8) value = uint(clamp(int(value), 0, 255));
    }
    if (dtype == HLX_RAW16) return value & 0xffffu;
    return dtype >= HLX_I8 ? value & 0xffu : value;
}
