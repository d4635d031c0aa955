// Attention dK and dV for heads of at most 64 columns, 32 keys a workgroup, read through the cache.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 4
#define THREADS_Y 8
#define ROWS_FROM_MEMORY
#include "backward_key_value_narrow.glsl"
