// Adds by index along an axis, line by line (add_lines.glsl).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "add_lines.glsl"
