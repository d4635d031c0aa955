// The product of prepared operands by cooperative matrices, an activation's incoming gradient: in place of the
// activation's input x, which C holds, f'(x) times the product.
#version 460
#extension GL_GOOGLE_include_directive : require
#define ACTIVATED
#include "product_matrices.glsl"
