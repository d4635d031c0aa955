// The product of prepared operands by cooperative matrices.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "product_matrices.glsl"
