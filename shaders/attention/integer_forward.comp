// Attention over integers in plain integer arithmetic, forward, by integer_forward_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "integer_forward_rows.glsl"
