// Attention over ranges, its output from stored weights.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OUTPUT
#include "ranged_sum.glsl"
