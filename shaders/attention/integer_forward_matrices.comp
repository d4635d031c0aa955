// Attention over ranges by matrices of integers, forward.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "integer_forward_matrices.glsl"
