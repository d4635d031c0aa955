// Attention over integers by dot products of four bytes, dK and dV, by integer_backward_key_value_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_integer_dot_product : require
#define DOTS
#include "integer_backward_key_value_rows.glsl"
