// The matrix product of up to 16 rows, 8 columns a workgroup: for few columns, whose rows of W are then
// loaded by many processors.
#version 460
#extension GL_GOOGLE_include_directive : require
#define COLUMNS 8
#include "few_rows.glsl"
