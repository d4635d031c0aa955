// Addition in place: y[i] = y[i] + x[i].
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#define HLX_IN_PLACE
#include "../include/map.glsl"

float apply(float x, float y) { return hlx_add(y, x); }
