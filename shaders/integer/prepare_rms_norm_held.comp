// An RMS norm whose result is prepared as rows of integers, of rows held in registers, by normed_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HELD
#include "normed_rows.glsl"
