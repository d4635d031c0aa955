// Attention forward for heads of at most 64 columns, 64 queries a workgroup; weights are dropped.
#version 460
#extension GL_GOOGLE_include_directive : require
#define DROPPED
#define THREAD_ROWS 4
#define THREADS_Y 16
#define STAGED
#include "forward_narrow.glsl"
