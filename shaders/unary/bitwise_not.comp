// bitwise_not of 1 operand: see include/unary/simple.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/simple.glsl"

uint apply(uint x) {
    if (COMPUTE == HLX_I32) return uint(bitwise_not_int(int(x)));
    return uint(bitwise_not_int(uint(x)));
}
