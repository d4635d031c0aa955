// Adds by index along an axis, a line of at most 4,096 targets in shared memory (add_lines.glsl).
#version 460
#extension GL_GOOGLE_include_directive : require
#define HELD 4096
#include "add_lines.glsl"
