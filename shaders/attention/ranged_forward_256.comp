// Attention over ranges, forward, for heads of at most 256 columns: 32 queries a workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 2
#define THREADS_Y 16
#define CHUNKS 4
#include "ranged_forward.glsl"
