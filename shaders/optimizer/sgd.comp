// Stochastic gradient descent without momentum; formulas in sgd.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "hyper.glsl"
#include "sgd.glsl"
#include "step.glsl"
