// Attention over ranges, dK and dV, for heads of at most 256 columns: 32 keys a workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 2
#define THREADS_Y 16
#define CHUNKS 4
#include "ranged_backward_key_value.glsl"
