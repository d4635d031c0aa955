// GELU by the error function: y = (0.5 x) (1 + erf(x / sqrt 2)).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#include "../include/map.glsl"

float apply(float x) { return gelu(x); }
