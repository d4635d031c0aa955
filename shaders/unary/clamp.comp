// clamp of 1 operand: see include/unary/simple.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/simple.glsl"

uint apply(uint x) {
    if (COMPUTE == HLX_F32) return floatBitsToUint(clamp_f32(uintBitsToFloat(x), uintBitsToFloat(push.parameters[0]), uintBitsToFloat(push.parameters[1])));
    if (COMPUTE == HLX_I32) return uint(clamp_i32(int(x), int(push.parameters[0]), int(push.parameters[1])));
    return uint(clamp_u32(uint(x), uint(push.parameters[0]), uint(push.parameters[1])));
}
