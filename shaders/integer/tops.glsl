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
const uint VECTORS_ACROSS = 32u;
const uint COLUMNS = 4u * VECTORS_ACROSS;
const uint GROUPS = 256u / VECTORS_ACROSS;

shared uvec4 of_columns[256];
#ifdef WITH_ROWS
// With a place of padding, so that threads side by side, which have a quarter of a row each, read different banks.
const uint PARTS = 256u / ROWS;
shared uint of_rows[ROWS][VECTORS_ACROSS + 1u];
shared uint of_parts[ROWS][PARTS];
#endif

void main() {
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint down = (push.k + ROWS - 1u) / ROWS;
    uint outer = hlx_group() / blocks / down;
    if (outer >= push.outer) return;
    uint first_row = hlx_group() / blocks % down * ROWS;
    uint first_column = hlx_group() % blocks * COLUMNS;
    uint thread = gl_LocalInvocationIndex;
    uint lane = thread % VECTORS_ACROSS;
    uint own_row = thread / VECTORS_ACROSS;
    vec4 v[ROWS / GROUPS];
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j)
        v[j] = load(outer, first_row + own_row + j * GROUPS, first_column + 4u * lane);
#ifndef WITH_ROWS
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j)
        if (!counts(outer, first_row + own_row + j * GROUPS)) v[j] = vec4(0.0);
#endif
    uvec4 top = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j)
        [[unroll]] for (uint c = 0u; c < 4u; ++c) top[c] = max(top[c], hlx_magnitude(v[j][c]));
    of_columns[thread] = top;
#ifdef WITH_ROWS
    [[unroll]] for (uint j = 0u; j < ROWS / GROUPS; ++j) {
        uvec4 of = uvec4(hlx_magnitude(v[j].x), hlx_magnitude(v[j].y), hlx_magnitude(v[j].z), hlx_magnitude(v[j].w));
        of_rows[own_row + j * GROUPS][lane] = max(max(of.x, of.y), max(of.z, of.w));
    }
#endif
    barrier();
    // A thread has one of the columns, and a part of one of the rows.
    if (thread < COLUMNS && first_column + thread < push.columns) {
        uint largest = 0u;
        [[unroll]] for (uint i = 0u; i < GROUPS; ++i)
            largest = max(largest, of_columns[i * VECTORS_ACROSS + thread / 4u][thread % 4u]);
        atomicMax(tops[at_column_top(outer, first_column + thread, first_row)], largest);
    }
#ifdef WITH_ROWS
    const uint OF_PART = VECTORS_ACROSS / PARTS;
    uint of_part = 0u;
    [[unroll]] for (uint i = 0u; i < OF_PART; ++i)
        of_part = max(of_part, of_rows[thread / PARTS][thread % PARTS * OF_PART + i]);
    of_parts[thread / PARTS][thread % PARTS] = of_part;
    barrier();
    if (thread >= ROWS || first_row + thread >= push.k) return;
    uint largest = 0u;
    [[unroll]] for (uint i = 0u; i < PARTS; ++i) largest = max(largest, of_parts[thread][i]);
    atomicMax(tops[at_row_top(outer, first_row + thread, first_column)], largest);
#endif
}
