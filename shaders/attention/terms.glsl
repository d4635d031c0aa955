// Sums over terms for a workgroup's 128 rows and 64 columns, 8 x 8 elements per thread. Both operands have
// their terms outside, [term][row] and [term][column], so that whole vectors are loaded as they lie; steps
// of eight terms pass through shared memory, and the next step is loaded while one is computed.
//
// Shared memory is 12 KiB: an H200's multiprocessor runs four such workgroups.
//
// 32 consecutive threads hold 64 consecutive rows and 32 consecutive columns, and eight of them read eight
// neighbouring vectors.

#define THREAD_ROWS 8
#define THREADS_Y 16
const uint THREADS = 128u;
const uint ROWS = 128u;
const uint COLUMNS = 64u;
const uint STEP = 8u;
// Vectors of four rows, and of four columns.
const uint ROW_UNITS = ROWS / 4u;
const uint COLUMN_UNITS = COLUMNS / 4u;

layout(local_size_x = 128) in;

layout(constant_id = 0) const uint D = 64;
const bool VECTOR = true;

#include "register_tile.glsl"

// Of two steps.
shared vec4 row_tile[2u * STEP * ROW_UNITS];
shared vec4 column_tile[2u * STEP * COLUMN_UNITS];

// A thread's rows are the vectors first and first + 8, its columns the vectors first and first + 4.
uint thread_row_unit() {
    return 16u * ((gl_LocalInvocationIndex >> 5) & 1u) + (gl_LocalInvocationIndex & 7u);
}
uint thread_column_unit() {
    return 8u * (gl_LocalInvocationIndex >> 6) + ((gl_LocalInvocationIndex >> 3) & 3u);
}
#define ROW_OF(r) (4u * (row_unit + 8u * ((r) / 4u)) + (r) % 4u)
#define COLUMN_OF(v) (4u * (column_unit + 4u * (v)))

// Of each step a thread loads two vectors of rows, four terms apart, and one of columns.
#define ROW_TERM (gl_LocalInvocationIndex / ROW_UNITS)
#define ROW_PLACE (4u * (gl_LocalInvocationIndex % ROW_UNITS))
#define COLUMN_TERM (gl_LocalInvocationIndex / COLUMN_UNITS)
#define COLUMN_PLACE (4u * (gl_LocalInvocationIndex % COLUMN_UNITS))
#define KEEP_STEP(buffer_idx)                                                    \
    [[unroll]] for (uint i = 0u; i < 2u; ++i)                                    \
        row_tile[(buffer_idx) * STEP * ROW_UNITS + gl_LocalInvocationIndex + THREADS * i] = next_rows[i]; \
    column_tile[(buffer_idx) * STEP * COLUMN_UNITS + gl_LocalInvocationIndex] = next_columns;

// sums[r][v] goes on over the terms of a step; TAKES(r, k) says whether row r takes term k.
#define ADD_STEP(sums, buffer_idx, TAKES)                                        \
    EACH(k, STEP,                                                                \
        vec4 near = row_tile[((buffer_idx) * STEP + k) * ROW_UNITS + row_unit];  \
        vec4 far = row_tile[((buffer_idx) * STEP + k) * ROW_UNITS + row_unit + 8u]; \
        EACH(v, 2u,                                                              \
            vec4 y = column_tile[((buffer_idx) * STEP + k) * COLUMN_UNITS + column_unit + 4u * v]; \
            EACH(r, 4u,                                                          \
                if (TAKES(r, k)) sums[r][v] = fma4(near[r], y, sums[r][v]);      \
                if (TAKES(r + 4u, k)) sums[r + 4u][v] = fma4(far[r], y, sums[r + 4u][v]); \
            )                                                                    \
        )                                                                        \
    )
#define ALWAYS(r, k) true

// Past every index, and the bits of an ordinary float.
const uint NONE = 0x7f000000u;

// Joins what all rows of the workgroup see: each thread gives the range begin .. end - 1 of one row.
// Returns (the first index that a row sees, the end; begin and end of what all rows see).
uvec4 joined_ranges(uvec2 range, bool exists) {
    uvec4 own = range.x < range.y ? range.xyxy : uvec4(NONE, 0u, NONE, 0u);
    if (!exists) own = uvec4(NONE, 0u, 0u, NONE);
    row_tile[gl_LocalInvocationIndex] = uintBitsToFloat(own);
    barrier();
    for (uint half_count = THREADS / 2u; half_count > 0u; half_count /= 2u) {
        if (gl_LocalInvocationIndex < half_count) {
            uvec4 other = floatBitsToUint(row_tile[gl_LocalInvocationIndex + half_count]);
            own.xw = min(own.xw, other.xw);
            own.yz = max(own.yz, other.yz);
            row_tile[gl_LocalInvocationIndex] = uintBitsToFloat(own);
        }
        barrier();
    }
    uvec4 joined = floatBitsToUint(row_tile[0]);
    barrier();
    return joined;
}
