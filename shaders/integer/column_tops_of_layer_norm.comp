// The largest magnitude of every piece of the columns of a layer norm's result, by tops.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_LAYER_NORM
#include "tops.glsl"
