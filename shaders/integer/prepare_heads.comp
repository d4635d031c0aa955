// The rows of heads as integers, by heads.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "heads.glsl"
