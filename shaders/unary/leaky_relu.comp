// leaky_relu of 1 operand: see include/unary/simple.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 1
#include "../include/elements.glsl"
#include "../include/unary/simple.glsl"

uint apply(uint x) {
    return floatBitsToUint(leaky_relu_f32(uintBitsToFloat(x), uintBitsToFloat(push.parameters[0]), uintBitsToFloat(push.parameters[1])));
}
