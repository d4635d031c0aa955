// SiLU: y = x sigmoid(x).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/map.glsl"

float apply(float x) { return hlx_mul(x, hlx_sigmoid(x)); }
