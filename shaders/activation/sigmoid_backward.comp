// Derivative of the sigmoid: dx = dy e / (1 + e)^2 with e = exp(-|x|); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) { return sigmoid_backward(x, dy); }
