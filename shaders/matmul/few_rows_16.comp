// The matrix product of up to 8 rows, 16 columns a workgroup: for many columns, where fewer instructions
// a column count.
#version 460
#extension GL_GOOGLE_include_directive : require
#define COLUMNS 16
#include "few_rows.glsl"
