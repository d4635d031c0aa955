// GELU by the error function: y = (0.5 x) (1 + erf(x / sqrt 2)).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/map.glsl"
#include "gelu.glsl"

float apply(float x) {
    return hlx_mul(hlx_mul(0.5, x), hlx_add(1.0, hlx_erf(hlx_mul(x, INV_SQRT_2))));
}
