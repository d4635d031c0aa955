// The rows of an activation's result as integers, by rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_ACTIVATION
#include "rows.glsl"
