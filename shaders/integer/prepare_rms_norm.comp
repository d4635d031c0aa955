// An RMS norm whose result is prepared as rows of integers, by normed_rows.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "normed_rows.glsl"
