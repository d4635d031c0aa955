// Derivative of ReLU: dx = dy where x is positive or NaN, else +0; b = dy.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float dy) { return relu_backward(x, dy); }
