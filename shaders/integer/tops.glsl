// The largest magnitudes of the columns of matrices x: [outer, k, columns], by pieces, and with WITH_ROWS those of their
// rows; tops (columns.glsl) has zeros before. A workgroup has 64 rows of 128 columns. What it finds is joined by atomics on
// integers, whose order cannot show.
#define SOURCE_BINDING 3
#include "columns.glsl"

layout(local_size_x = 256) in;

layout(set = 0, binding = 1) buffer Tops { uint tops[]; };
#ifndef WITH_ROWS
#define COUNTED_BINDING 2
#include "counted.glsl"
#endif

const uint ROWS = 64u;
// Of 32 vectors, which eight groups of threads read.
const uint COLUMNS = 128u;
const uint GROUPS = 8u;

shared uvec4 own[256];
#ifdef WITH_ROWS
shared uint of_rows[ROWS][33];
#endif

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
#ifndef WITH_ROWS
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j) {
        uint row = first_row + gl_LocalInvocationIndex / 32u + j * GROUPS;
        if (!counts(outer, row)) v[j] = vec4(0.0);
    }
#endif
    uvec4 top = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j)
        [[unroll]] for (uint c = 0u; c < 4u; ++c) top[c] = max(top[c], hlx_magnitude(v[j][c]));
    own[gl_LocalInvocationIndex] = top;
#ifdef WITH_ROWS
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j) {
        uvec4 of = uvec4(hlx_magnitude(v[j].x), hlx_magnitude(v[j].y), hlx_magnitude(v[j].z), hlx_magnitude(v[j].w));
        of_rows[gl_LocalInvocationIndex / 32u + j * GROUPS][lane] = max(max(of.x, of.y), max(of.z, of.w));
    }
#endif
    barrier();
#ifdef WITH_ROWS
    uint row = gl_LocalInvocationIndex - 32u;
    if (row < ROWS && first_row + row < push.k) {
        uint largest = 0u;
        for (uint i = 0u; i < 32u; ++i) largest = max(largest, of_rows[row][i]);
        atomicMax(tops[at_row_top(outer, first_row + row, hlx_group() % blocks * COLUMNS)], largest);
    }
#endif
    if (gl_LocalInvocationIndex >= 32u) return;
    for (uint i = 1u; i < GROUPS; ++i) top = max(top, own[lane + 32u * i]);
    [[unroll]] for (uint c = 0u; c < 4u; ++c)
        if (column + c < push.columns)
            atomicMax(tops[at_column_top(outer, column + c, first_row)], top[c]);
}
