// The matrix product of few rows, 16 columns a workgroup, whose A is silu(A) up.
#version 460
#extension GL_GOOGLE_include_directive : require
#define GATED
#define COLUMNS 16
#include "few_rows.glsl"
