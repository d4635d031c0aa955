// Attention over integers by dot products of four bytes, dQ, by integer_backward_query_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_integer_dot_product : require
#define DOTS
#include "integer_backward_query_rows.glsl"
