// The rows of a matrix as integers, by rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"
