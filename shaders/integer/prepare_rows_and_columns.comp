#version 460
#extension GL_GOOGLE_include_directive : require
#define WITH_ROWS
#include "turn.glsl"
