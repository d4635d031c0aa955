// The columns of a matrix as integers, turned into rows of digits, by turn.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "turn.glsl"
