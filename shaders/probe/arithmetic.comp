// The start-up probe: out[i] = op(a[i], b[i], c[i]) for every operation of HLX's arithmetic.
//
// Operations 0 to 2 are the device's bare instructions and tell whether it fuses and flushes by
// itself; the rest are HLX's own functions, which must give the bits of their Rust twins.
#version 450
#include "../include/math.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Push { uint count; uint op; } push;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) readonly buffer C { float c[]; };
layout(set = 0, binding = 3) writeonly buffer Out { float result[]; };

float bare(uint op, float x, float y, float z) {
    precise float fused = fma(x, y, z);
    precise float product = x * y;
    precise float sum = x + y;
    return op == 0u ? fused : op == 1u ? product : sum;
}

// (x + y) - x, which a compiler that ignores `precise` turns into y.
float reassociated(float x, float y) {
    precise float sum = hlx_add(x, y);
    return hlx_sub(sum, x);
}

float run(uint op, float x, float y, float z) {
    switch (op) {
    case 3u: return hlx_fma(x, y, z);
    case 4u: return hlx_mul(x, y);
    case 5u: return hlx_add(x, y);
    case 6u: return hlx_sub(x, y);
    case 7u: return reassociated(x, y);
    case 8u: return hlx_div(x, y);
    case 9u: return hlx_sqrt(x);
    case 10u: return hlx_rsqrt(x);
    case 11u: return hlx_exp(x);
    case 12u: return hlx_log(x);
    case 13u: return hlx_tanh(x);
    case 14u: return hlx_erf(x);
    case 15u: return hlx_sin(x);
    case 16u: return hlx_cos(x);
    case 17u: return hlx_max(hlx_load(x), hlx_load(y));
    default: return bare(op, x, y, z);
    }
}

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index >= push.count) return;
    result[index] = run(push.op, a[index], b[index], c[index]);
}
