// The product with few rows of a (product_few.glsl) in plain integer arithmetic.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "finish.glsl"
#include "plain_dot.glsl"
#include "product_few.glsl"
