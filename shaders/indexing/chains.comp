// The chains of ordered additions, a thread a line (chains.glsl).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "chains.glsl"
