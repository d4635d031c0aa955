// ReLU: y = x where x is positive, +0 or NaN, else +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#include "../include/map.glsl"

float apply(float x) { return relu(x); }
