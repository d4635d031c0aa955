// y = f(x) of gelu: see include/activation.glsl. Written by `cargo xtask shaders`.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/activation.glsl"
#include "../include/map.glsl"

float apply(float x) { return gelu_forward(x); }
