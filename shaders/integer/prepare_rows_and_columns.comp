// The rows and the columns of a matrix as integers from one reading of it, by turn.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WITH_ROWS
#include "turn.glsl"
