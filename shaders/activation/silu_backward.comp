// Derivative of SiLU: dx = dy s (1 + x (1 - s)) with s = sigmoid(x); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) { return silu_backward(x, dy); }
