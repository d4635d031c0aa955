// The columns of a layer norm's result as integers, turned into rows of digits, by turn.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define OF_LAYER_NORM
#include "turn.glsl"
