// relu of 1 operand: see include/unary/simple.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/simple.glsl"

uint apply(uint x) {
    if (COMPUTE == HLX_F32) return floatBitsToUint(relu_f32(uintBitsToFloat(x)));
    if (COMPUTE == HLX_I32) return uint(relu_i32(int(x)));
    return uint(relu_u32(uint(x)));
}
