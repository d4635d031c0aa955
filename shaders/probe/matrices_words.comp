#version 460
#extension GL_GOOGLE_include_directive : require
#define WORDS
#include "matrices.glsl"
