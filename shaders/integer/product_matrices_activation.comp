// The product of prepared operands by cooperative matrices, with an activation behind it: C and extra = f(C).
#version 460
#extension GL_GOOGLE_include_directive : require
#define ACTIVATED
#define WRITES_EXTRA
#include "product_matrices.glsl"
