// Attention dK and dV for heads of at most 64 columns, 32 keys a workgroup, read through the cache;
// weights are dropped.
#version 460
#extension GL_GOOGLE_include_directive : require
#define DROPPED
#define THREAD_ROWS 4
#define THREADS_Y 8
#define ROWS_FROM_MEMORY
#define UNROLL 8
#include "backward_key_value_narrow.glsl"
