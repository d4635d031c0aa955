// The matrix product in tiles of 128 x 128, with an activation behind it.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TILE_M 128
#define TILE_N 128
#define THREAD_M 8
#define THREAD_N 8
#define WARP_M 4
#define WARP_N 8
#define K_STEP 8
#define LANES 2
#define HAS_EPILOGUE
#define WRITES_EXTRA
#include "product.glsl"
