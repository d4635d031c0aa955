// Attention over integers in plain integer arithmetic, dK and dV, by integer_backward_key_value_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "integer_backward_key_value_rows.glsl"
