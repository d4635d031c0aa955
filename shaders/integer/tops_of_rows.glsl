// Rows of which 32 threads find the largest magnitude: a workgroup has eight.
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

const uint ROWS = 8u;
const uint THREADS = 32u;

shared uint tops[ROWS][THREADS];

// Declares a thread's row in the workgroup, and its place among the row's threads.
#define DECLARE_LANE \
    uint own = gl_LocalInvocationID.x / THREADS; \
    uint lane = gl_LocalInvocationID.x % THREADS;

#define ADD_TO_TOP(v) [[unroll]] for (uint c = 0u; c < 4u; ++c) top = max(top, hlx_magnitude(v[c]));

// `top` of a thread becomes that of its row. The largest of integers: no order shows.
#define JOIN_TOPS \
    tops[own][lane] = top; \
    barrier(); \
    for (uint i = 0u; i < THREADS; ++i) top = max(top, tops[own][i]);
