// The chains of ordered additions, a thread four lines (chains.glsl).
#version 460
#extension GL_GOOGLE_include_directive : require
#define FOUR
#include "chains.glsl"
