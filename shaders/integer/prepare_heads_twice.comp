// The rows of heads as wide and as narrow integers, by heads.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TWICE
#include "heads.glsl"
