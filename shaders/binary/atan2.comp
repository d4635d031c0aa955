// atan2 of 2 operands: see include/binary/power.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 2
#include "../include/elements.glsl"
#include "../include/binary/power.glsl"

uint apply(uint a, uint b) {
    return floatBitsToUint(atan2_f32(uintBitsToFloat(a), uintBitsToFloat(b)));
}
