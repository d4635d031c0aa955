// The matrix product in tiles of 64 x 64, with an activation behind it.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TILE_M 64
#define TILE_N 64
#define THREAD_M 8
#define THREAD_N 4
#define WARP_M 4
#define WARP_N 8
#define K_STEP 16
#define LANES 4
#define HAS_EPILOGUE
#define WRITES_EXTRA
#include "product.glsl"
