// SiLU: y = x sigmoid(x).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#include "../include/map.glsl"

float apply(float x) { return silu(x); }
