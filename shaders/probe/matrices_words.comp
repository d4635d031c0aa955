// As matrices.comp, with operands in memory of 32-bit words.
#version 460
#extension GL_GOOGLE_include_directive : require
#define WORDS
#include "matrices.glsl"
