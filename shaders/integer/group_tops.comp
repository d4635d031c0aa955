// The largest magnitudes of the columns of groups of a matrix's rows (groups.glsl); tops has zeros before. A workgroup has 128
// rows of 128 columns, a thread 16 rows of four: what it finds of a group joins the others' by atomics on integers, whose
// order cannot show.
#include "groups.glsl"

layout(local_size_x = 256) in;

// Where it is above 0, only rows enter of which this many exponents (of prepare_rows or counted_rows) are not all those
// of zeros.
layout(constant_id = 3) const uint COUNTED = 0;
layout(set = 0, binding = 2) buffer Tops { uint tops[]; };
layout(set = 0, binding = 3) readonly restrict buffer Counted { int counted[]; };

const uint OWN_ROWS = 16u;
const uint ROWS = 8u * OWN_ROWS;
const uint COLUMNS = 128u;

DEFINE_GROUP_OF(group_of, row, row_of)

void add(uvec4 top, uint column, uint group) {
    [[unroll]] for (uint c = 0u; c < 4u; ++c)
        if (column + c < push.columns && top[c] != 0u) atomicMax(tops[at_top(column + c, group)], top[c]);
}

void main() {
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint first = hlx_group() / blocks * ROWS + gl_LocalInvocationIndex / 32u * OWN_ROWS;
    uint column = hlx_group() % blocks * COLUMNS + 4u * (gl_LocalInvocationIndex % 32u);
    uint end = min(first + OWN_ROWS, push.rows);
    if (first >= end) return;
    uint group = group_of(first);
    uvec4 top = uvec4(0u);
    for (uint row = first; row < end; ++row) {
        while (group + 1u < push.groups && row >= row_of(group + 1u)) {
            add(top, column, group);
            top = uvec4(0u);
            group += 1u;
        }
        bool counts = COUNTED == 0u;
        for (uint i = 0u; i < COUNTED; ++i)
            if (counted[row * COUNTED + i] != HLX_EXPONENT_OF_ZEROS) counts = true;
        if (!counts) continue;
        vec4 v = load(row, column);
        [[unroll]] for (uint c = 0u; c < 4u; ++c) top[c] = max(top[c], hlx_magnitude(v[c]));
    }
    add(top, column, group);
}
