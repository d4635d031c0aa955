// As product_matrices_activation.comp, by cooperative matrices of less than 16 terms.
#version 460
#extension GL_GOOGLE_include_directive : require
#define ACTIVATED
#define WRITES_EXTRA
#define WORDS
#include "product_matrices.glsl"
