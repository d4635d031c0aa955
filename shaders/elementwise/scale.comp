// A tensor times a number known on the host: y[i] = x[i] * scalar.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/map.glsl"

float apply(float x) { return hlx_mul(x, push.scalar); }
