// Attention over ranges by matrices of integers, dQ.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "integer_backward_query_matrices.glsl"
