// Attention over ranges, forward, for heads of at most 128 columns: 64 queries a workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 4
#define THREADS_Y 16
#define CHUNKS 2
#include "ranged_forward.glsl"
