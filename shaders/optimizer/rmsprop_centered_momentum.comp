// RMSprop by the centered second moment, with momentum; formulas in rmsprop.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_CENTERED
#define HLX_MOMENTUM
#define HLX_STATES 3
#include "rmsprop.glsl"
