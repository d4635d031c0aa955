// Attention over ranges, dK and dV, for heads of at most 128 columns: 32 keys a workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 4
#define THREADS_Y 8
#define CHUNKS 2
#include "ranged_backward_key_value.glsl"
