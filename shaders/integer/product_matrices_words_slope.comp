// As product_matrices_slope.comp, by cooperative matrices of less than 16 terms.
#version 460
#extension GL_GOOGLE_include_directive : require
#define ACTIVATED
#define WORDS
#include "product_matrices.glsl"
