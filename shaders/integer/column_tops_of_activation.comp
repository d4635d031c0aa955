// The largest magnitude of every piece of the columns of an activation's result, by tops.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_ACTIVATION
#include "tops.glsl"
