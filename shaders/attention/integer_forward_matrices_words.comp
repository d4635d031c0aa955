// Attention over ranges by matrices of integers of less than 16 terms, forward.
#version 460
#extension GL_GOOGLE_include_directive : require
#define NARROW
#include "integer_forward_matrices.glsl"
