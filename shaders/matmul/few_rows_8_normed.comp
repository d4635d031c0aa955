// The matrix product of few rows, 8 columns a workgroup, whose A is normed first (RMS norm).
#version 460
#extension GL_GOOGLE_include_directive : require
#define NORMED
#define COLUMNS 8
#include "few_rows.glsl"
