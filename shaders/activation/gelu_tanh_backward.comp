// Derivative of GELU by tanh: dx = dy (0.5 (1 + t) + 0.5 x (1 - t^2) inner'); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_BINARY
#include "../include/map.glsl"
#include "gelu.glsl"

float apply(float input_value, float dy) {
    precise float x = within_16(input_value);
    precise float x_squared = hlx_mul(x, x);
    precise float t = hlx_tanh(gelu_inner(x, x_squared));
    precise float sech_squared = hlx_fma(-t, t, 1.0);
    precise float inner_slope = hlx_mul(SQRT_2_OVER_PI, hlx_fma(GELU_CUBIC_3, x_squared, 1.0));
    precise float right = hlx_mul(hlx_mul(hlx_mul(0.5, x), sech_squared), inner_slope);
    return hlx_mul(dy, hlx_fma(0.5, hlx_add(1.0, t), right));
}
