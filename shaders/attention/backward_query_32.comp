// Attention dQ for heads of at most 64 columns, 32 queries a workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#define THREAD_ROWS 2
#define THREADS_Y 16
#include "backward_query_narrow.glsl"
