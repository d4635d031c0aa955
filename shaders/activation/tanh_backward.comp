// Derivative of tanh: dx = dy (1 - t^2) with t = tanh(x); b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) { return tanh_backward(x, dy); }
