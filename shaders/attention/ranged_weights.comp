// Attention over ranges, the weights of its backward's sums.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "ranged_weights.glsl"
