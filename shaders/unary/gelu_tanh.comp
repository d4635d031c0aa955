// gelu_tanh of 1 operand: see include/unary/activations.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/activations.glsl"

uint apply(uint x) {
    return floatBitsToUint(gelu_tanh_f32(uintBitsToFloat(x)));
}
