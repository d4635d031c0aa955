// A layer norm whose result is prepared as rows of integers, of rows held in registers, by normed_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_LAYER_NORM
#define HELD
#include "normed_rows.glsl"
