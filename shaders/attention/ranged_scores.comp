// Attention over ranges, the scores of its forward.
#version 460
#extension GL_GOOGLE_include_directive : require
#define SCORES
#include "ranged_weights.glsl"
