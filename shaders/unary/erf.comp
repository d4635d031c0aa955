// erf of 1 operand: see include/unary/math.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/math.glsl"

uint apply(uint x) {
    return floatBitsToUint(erf_f32(uintBitsToFloat(x)));
}
