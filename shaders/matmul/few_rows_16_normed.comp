// The matrix product of few rows, 16 columns a workgroup, whose A is normed first (RMS norm).
#version 460
#extension GL_GOOGLE_include_directive : require
#define NORMED
#define COLUMNS 16
#include "few_rows.glsl"
