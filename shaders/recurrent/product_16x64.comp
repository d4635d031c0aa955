// A step's product in tiles of 16 x 64.
#version 460
#extension GL_GOOGLE_include_directive : require
#define COLUMNS 64u
#define TERMS 64u
#include "product.glsl"
