// expm1 of 1 operand: see include/unary/functions.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/functions.glsl"

uint apply(uint x) {
    return floatBitsToUint(expm1_f32(uintBitsToFloat(x)));
}
