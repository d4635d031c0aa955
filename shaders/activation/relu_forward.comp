// ReLU: y = x where x is positive, +0 or NaN, else +0; a test on the bits, not the device's max.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/map.glsl"

float apply(float x) {
    uint bits = floatBitsToUint(x);
    return bits <= HLX_MAGNITUDE || hlx_isnan(x) ? x : 0.0;
}
