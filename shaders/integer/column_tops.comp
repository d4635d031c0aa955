// The largest magnitude of every piece of a matrix's columns, by tops.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "tops.glsl"
