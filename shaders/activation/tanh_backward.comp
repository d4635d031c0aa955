// Derivative of tanh: dx = dy (1 - t^2) with t = tanh(x); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) {
    precise float t = hlx_tanh(x);
    return hlx_mul(dy, hlx_fma(-t, t, 1.0));
}
