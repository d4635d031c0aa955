// Attention over integers in plain integer arithmetic, dQ, by integer_backward_query_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "integer_backward_query_rows.glsl"
