// Derivative of GELU: dx = dy (cdf + x pdf), with the normal distribution's cdf and pdf; b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_BINARY
#include "../include/map.glsl"
#include "gelu.glsl"

float apply(float input_value, float dy) {
    precise float x = within_16(input_value);
    precise float cdf = hlx_mul(0.5, hlx_add(1.0, hlx_erf(hlx_mul(x, INV_SQRT_2))));
    precise float pdf = hlx_mul(INV_SQRT_2_PI, hlx_exp(hlx_mul(hlx_mul(-0.5, x), x)));
    return hlx_mul(dy, hlx_fma(x, pdf, cdf));
}
