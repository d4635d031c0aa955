// A layer norm whose result is prepared as rows of integers, by normed_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_LAYER_NORM
#include "normed_rows.glsl"
