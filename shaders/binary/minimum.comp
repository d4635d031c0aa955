// minimum of 2 operands: see include/binary/arithmetic.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 2
#include "../include/elements.glsl"
#include "../include/binary/arithmetic.glsl"

uint apply(uint a, uint b) {
    if (COMPUTE == HLX_F32) return floatBitsToUint(minimum_f32(uintBitsToFloat(a), uintBitsToFloat(b)));
    if (COMPUTE == HLX_I32) return uint(minimum_i32(int(a), int(b)));
    return uint(minimum_u32(uint(a), uint(b)));
}
