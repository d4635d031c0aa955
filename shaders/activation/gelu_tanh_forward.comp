// GELU by tanh: y = (0.5 x) (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#include "../include/map.glsl"

float apply(float x) { return gelu_tanh(x); }
