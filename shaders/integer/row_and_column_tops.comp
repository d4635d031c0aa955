// The largest magnitudes of a matrix's rows and of every piece of its columns from one reading, by tops.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WITH_ROWS
#include "tops.glsl"
