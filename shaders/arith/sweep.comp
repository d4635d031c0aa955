// out[i] = op(a[i], b[i], c[i]) for one operation of HLX's arithmetic: the sweep that compares
// every device with Rust (crates/hlx-kernels/src/arith_check.rs).
#version 450
#include "../include/functions.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Push { uint count; uint op; } push;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) readonly buffer C { float c[]; };
layout(set = 0, binding = 3) writeonly buffer Out { float result[]; };

float run(uint op, float x, float y, float z) {
    switch (op) {
    case 0u: return hlx_fma(x, y, z);
    case 1u: return hlx_mul(x, y);
    case 2u: return hlx_add(x, y);
    case 3u: return hlx_sub(x, y);
    case 4u: return hlx_div(x, y);
    case 5u: return hlx_sqrt(x);
    case 6u: return hlx_rsqrt(x);
    case 7u: return hlx_exp(x);
    case 8u: return hlx_log(x);
    case 9u: return hlx_sigmoid(x);
    case 10u: return hlx_tanh(x);
    case 11u: return hlx_erf(x);
    case 12u: return hlx_sin(x);
    case 13u: return hlx_cos(x);
    case 14u: return hlx_max(hlx_load(x), hlx_load(y));
    case 15u: return hlx_pos0(hlx_load(x));
    case 16u: return hlx_soft_fma(x, y, z);
    case 17u: return hlx_exp2(x);
    case 18u: return hlx_expm1(x);
    case 19u: return hlx_log2(x);
    case 20u: return hlx_log10(x);
    case 21u: return hlx_log1p(x);
    case 22u: return hlx_pow(x, y);
    case 23u: return hlx_tan(x);
    case 24u: return hlx_asin(x);
    case 25u: return hlx_acos(x);
    case 26u: return hlx_atan(x);
    case 27u: return hlx_sinh(x);
    case 28u: return hlx_cosh(x);
    case 29u: return hlx_atan2(x, y);
    default: return uintBitsToFloat(HLX_NAN);
    }
}

void main() {
    uint index = hlx_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (index >= push.count) return;
    result[index] = run(push.op, a[index], b[index], c[index]);
}
