// logical_xor of 2 operands: see include/binary/compare.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 2
#include "../include/elements.glsl"
#include "../include/binary/compare.glsl"

uint apply(uint a, uint b) {
    if (COMPUTE == HLX_F32) return uint(logical_xor_f32(uintBitsToFloat(a), uintBitsToFloat(b)));
    if (COMPUTE == HLX_I32) return uint(logical_xor_int(int(a), int(b)));
    return uint(logical_xor_int(uint(a), uint(b)));
}
