// The start-up probe of cooperative matrices of bytes, by matrices.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "matrices.glsl"
