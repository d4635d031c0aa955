// The matrix product in tiles of 64 x 64 by steps of 8 terms: for gradients of thin weights, whose operands both lie along M and N.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TILE_M 64
#define TILE_N 64
#define THREAD_M 8
#define THREAD_N 4
#define WARP_M 4
#define WARP_N 8
#define K_STEP 8
#define LANES 2
#include "product.glsl"
