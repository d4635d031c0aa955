// Attention over ranges by matrices of integers of less than 16 terms, dK and dV.
#version 460
#extension GL_GOOGLE_include_directive : require
#define NARROW
#include "integer_backward_key_value_matrices.glsl"
