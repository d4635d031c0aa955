// Attention over ranges, a gradient from stored weights.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "ranged_sum.glsl"
