// The columns of an activation's result times another operand as integers, turned into rows of digits, by turn.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_GATED
#include "turn.glsl"
