// Derivative of ReLU: dx = dy where x is positive or NaN, else +0; b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) {
    uint bits = floatBitsToUint(x);
    return (bits != 0u && bits <= HLX_MAGNITUDE) || hlx_isnan(x) ? dy : 0.0;
}
