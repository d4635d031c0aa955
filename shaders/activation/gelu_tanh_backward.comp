// Derivative of GELU by tanh: dx = dy (0.5 (1 + t) + 0.5 x (1 - t^2) inner'); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) { return gelu_tanh_backward(x, dy); }
