// Row reductions in the fixed order of docs/numerics.md: 128 lanes per row, then a tree by halves.
//
// Lane l of a row adds its columns l, l + 128, l + 256, ... in that order, starting from +0.
// Then lane[l] += lane[l + 64] for l < 64, and so on with 32, 16, 8, 4, 2, 1.
//
// A workgroup of 256 threads carries HLX_ROWS = 8 rows, 32 threads each. Thread t of a row holds
// the lanes t, t + 32, t + 64, t + 96 in one vec4, so that each load of 32 threads is one run of
// 128 bytes whatever the row's length and alignment, and the tree's two upper levels stay inside
// the thread. A shader writes its loop as
//
//   vec4 lanes = vec4(0.0);
//   HLX_EACH_LANE(col, cols, lanes[j] = hlx_add(lanes[j], x[row * cols + col]);)
//   float total = hlx_row_sum(lanes);
//
// hlx_row_sum and hlx_row_max hold barriers: every thread of the workgroup calls them, those of
// rows past the end too. Each returns the row's result to all of its 32 threads.
#include "math.glsl"

layout(local_size_x = 256) in;

const uint HLX_LANES = 128u;
const uint HLX_ROWS = 8u;

// The statement for each column below `end` of the thread's lanes, in order: lane j has the column that is named.
#define HLX_EACH_LANE(col, end, STATEMENT) \
    for (uint first = hlx_row_thread(); first < (end); first += HLX_LANES) \
        [[unroll]] for (uint j = 0u; j < 4u; ++j) { \
            uint col = first + 32u * j; \
            if (col < (end)) STATEMENT \
        }

// One slot a level: a thread may still read a level while its neighbour writes the next one.
shared float hlx_levels[5][256];

uint hlx_row_thread() { return gl_LocalInvocationID.x & 31u; }

uint hlx_row() { return hlx_group() * HLX_ROWS + (gl_LocalInvocationID.x >> 5); }

// What the thread on the other side of the tree's level holds. Addition of two values does not
// depend on their order, so both sides compute the same sum and no broadcast is needed.
float hlx_across(uint level, uint distance, float value) {
    uint thread = gl_LocalInvocationID.x;
    hlx_levels[level][thread] = value;
    barrier();
    return hlx_levels[level][thread ^ distance];
}

// A sum of zero is +0: compilers drop the first addition to +0, whose only trace is a zero's sign.
float hlx_row_sum(vec4 lanes) {
    precise float total = hlx_add(hlx_add(lanes.x, lanes.z), hlx_add(lanes.y, lanes.w));
    [[unroll]] for (uint level = 0u; level < 5u; ++level)
        total = hlx_add(total, hlx_across(level, 16u >> level, total));
    return hlx_pos0(total);
}

// The largest of the lanes (start them at -infinity); NaN if one is NaN, and +0 for either zero,
// so that no order shows.
float hlx_row_max(vec4 lanes) {
    precise float top = hlx_max(hlx_max(lanes.x, lanes.z), hlx_max(lanes.y, lanes.w));
    [[unroll]] for (uint level = 0u; level < 5u; ++level)
        top = hlx_max(top, hlx_across(level, 16u >> level, top));
    return hlx_pos0(top);
}

const float HLX_LOWEST = uintBitsToFloat(0xff800000u);
