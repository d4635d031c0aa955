// out[i] = f(the float whose bits are first + i * stride): one function of HLX's arithmetic over
// any stretch of its 2^32 inputs, without a buffer of them (crates/hlx-kernels/src/exhaustive.rs).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/functions.glsl"
#include "../include/random.glsl"

layout(local_size_x = 64) in;

// A constant, so that a pipeline holds one function.
layout(constant_id = 0) const uint FUNCTION = 0u;

layout(push_constant) uniform Push { uint count; uint first; uint stride; } push;
layout(set = 0, binding = 0) writeonly buffer Out { uint result[]; };

float apply(uint word) {
    float x = uintBitsToFloat(word);
    switch (FUNCTION) {
    case 1u: return hlx_div(1.0, x);
    case 2u: return hlx_sqrt(x);
    case 3u: return hlx_rsqrt(x);
    case 4u: return hlx_exp(x);
    case 5u: return hlx_log(x);
    case 6u: return hlx_sigmoid(x);
    case 7u: return hlx_tanh(x);
    case 8u: return hlx_erf(x);
    case 9u: return hlx_sin(x);
    case 10u: return hlx_cos(x);
    case 11u: return hlx_pos0(hlx_load(x));
    case 12u: return hlx_uniform(word);
    case 13u: return hlx_exp2(x);
    case 14u: return hlx_expm1(x);
    case 15u: return hlx_log2(x);
    case 16u: return hlx_log10(x);
    case 17u: return hlx_log1p(x);
    case 18u: return hlx_tan(x);
    case 19u: return hlx_asin(x);
    case 20u: return hlx_acos(x);
    case 21u: return hlx_atan(x);
    case 22u: return hlx_sinh(x);
    case 23u: return hlx_cosh(x);
    default: return uintBitsToFloat(HLX_NAN);
    }
}

void main() {
    uint index = hlx_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (index >= push.count) return;
    uint word = push.first + index * push.stride;
    // Function 0 gives the inputs as a tensor holds them, for kernels: subnormals are zeros.
    uint stored = (word & 0x7f800000u) == 0u ? word & 0x80000000u : word;
    result[index] = FUNCTION == 0u ? stored : floatBitsToUint(apply(word));
}
