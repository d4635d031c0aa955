// bitwise_or of 2 operands: see include/binary/bits.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 2
#include "../include/elements.glsl"
#include "../include/binary/bits.glsl"

uint apply(uint a, uint b) {
    if (COMPUTE == HLX_I32) return uint(bitwise_or_int(int(a), int(b)));
    return uint(bitwise_or_int(uint(a), uint(b)));
}
