// Attention over ranges by matrices of integers, dK and dV.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "integer_backward_key_value_matrices.glsl"
