// The product with few rows of a (product_few.glsl) by dot products of four bytes.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "finish.glsl"
#include "byte_dot.glsl"
#include "product_few.glsl"
