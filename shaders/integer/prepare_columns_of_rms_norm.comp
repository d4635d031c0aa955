// The columns of an RMS norm's result as integers, turned into rows of digits, by turn.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_RMS_NORM
#include "turn.glsl"
