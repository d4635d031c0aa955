// Derivative of SiLU: dx = dy s (1 + x (1 - s)) with s = sigmoid(x); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) {
    precise float s = hlx_sigmoid(x);
    return hlx_mul(dy, hlx_mul(s, hlx_fma(x, hlx_sub(1.0, s), 1.0)));
}
