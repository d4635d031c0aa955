// ceil of 1 operand: see include/unary/rounding.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/rounding.glsl"

uint apply(uint x) {
    if (COMPUTE == HLX_F32) return floatBitsToUint(ceil_f32(uintBitsToFloat(x)));
    if (COMPUTE == HLX_I32) return uint(ceil_int(int(x)));
    return uint(ceil_int(uint(x)));
}
