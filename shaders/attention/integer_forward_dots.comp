// Attention over integers by dot products of four bytes, forward, by integer_forward_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_integer_dot_product : require
#define DOTS
#include "integer_forward_rows.glsl"
