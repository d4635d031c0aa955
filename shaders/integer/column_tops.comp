// The largest magnitudes of the columns of matrices x: [outer, k, columns], by pieces; tops: [outer columns, pieces],
// zeros before. A workgroup has 64 rows of 128 columns. What it finds is joined by atomics on integers, whose order
// cannot show.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "columns.glsl"

layout(local_size_x = 256) in;

layout(set = 0, binding = 1) buffer Tops { uint tops[]; };

const uint ROWS = 64u;
// Of 32 vectors, which eight groups of threads read.
const uint COLUMNS = 128u;
const uint GROUPS = 8u;

shared uvec4 own[256];

void main() {
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint down = (push.k + ROWS - 1u) / ROWS;
    uint outer = hlx_group() / blocks / down;
    if (outer >= push.outer) return;
    uint first_row = hlx_group() / blocks % down * ROWS;
    uint lane = gl_LocalInvocationIndex % 32u;
    uint column = hlx_group() % blocks * COLUMNS + 4u * lane;
    vec4 v[ROWS / GROUPS];
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j)
        v[j] = load(outer, first_row + gl_LocalInvocationIndex / 32u + j * GROUPS, column);
    uvec4 top = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j)
        [[unroll]] for (uint c = 0u; c < 4u; ++c) top[c] = max(top[c], hlx_magnitude(v[j][c]));
    own[gl_LocalInvocationIndex] = top;
    barrier();
    if (gl_LocalInvocationIndex >= 32u) return;
    for (uint i = 1u; i < GROUPS; ++i) top = max(top, own[lane + 32u * i]);
    [[unroll]] for (uint c = 0u; c < 4u; ++c)
        if (column + c < push.columns)
            atomicMax(tops[(outer * push.columns + column + c) * pieces() + first_row / HLX_PIECE], top[c]);
}
