// Derivative of GELU: dx = dy (cdf + x pdf), with the normal distribution's cdf and pdf; b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) { return gelu_backward(x, dy); }
