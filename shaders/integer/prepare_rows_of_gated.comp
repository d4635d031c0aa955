// The rows of an activation's result times another operand as integers, by rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_GATED
#include "rows.glsl"
