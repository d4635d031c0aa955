// The largest magnitude of every piece of the columns of an RMS norm's result, by tops.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_RMS_NORM
#include "tops.glsl"
