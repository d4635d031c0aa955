// A step's product in tiles of 16 x 16.
#version 460
#extension GL_GOOGLE_include_directive : require
#define COLUMNS 16u
#define TERMS 128u
#include "product.glsl"
