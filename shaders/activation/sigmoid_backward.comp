// Derivative of the sigmoid: dx = dy e / (1 + e)^2 with e = exp(-|x|), which cancels on neither
// side; b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) {
    precise float e = hlx_exp(-hlx_abs(x));
    precise float one_plus = hlx_add(1.0, e);
    return hlx_mul(dy, hlx_div(e, hlx_mul(one_plus, one_plus)));
}
