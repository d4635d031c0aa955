// GELU by tanh: y = (0.5 x) (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/map.glsl"
#include "gelu.glsl"

float apply(float x) {
    precise float t = hlx_tanh(gelu_inner(x, hlx_mul(x, x)));
    return hlx_mul(hlx_mul(0.5, x), hlx_add(1.0, t));
}
