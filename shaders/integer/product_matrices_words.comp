// The product of prepared operands by cooperative matrices of less than 16 terms.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WORDS
#include "product_matrices.glsl"
