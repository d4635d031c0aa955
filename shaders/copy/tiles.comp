// Words of a strided operand written to a strided layout whose innermost dimension is another one
// than the operand's: y[.., a, .., b] = x[.., a, .., b], x contiguous along a and y along b.
//
// A workgroup transposes a tile of 32 x 32 in shared memory, so that both sides are read and
// written by neighbouring threads; the other dimensions are a batch of tiles.
#include "../include/arith.glsl"

#define TILE 32u
#define ROWS 8u

layout(local_size_x = 256) in;

// Dimensions of the batch.
layout(constant_id = 990) const uint RANK = 0u;

layout(push_constant) uniform Push {
    uint groups, a, b, x_offset, y_offset, x_stride_b, y_stride_a;
    uint extents[6], x_strides[6], y_strides[6];
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { uint y[]; };

// A row of padding: the words of a column lie in as many banks.
shared uint tile[TILE][TILE + 1u];

void main() {
    uint group = hlx_group();
    if (group >= push.groups) return; // the whole workgroup
    uint tiles_b = (push.b + TILE - 1u) / TILE;
    uint tiles_a = (push.a + TILE - 1u) / TILE;
    uint first_b = group % tiles_b * TILE;
    uint first_a = group / tiles_b % tiles_a * TILE;
    uint batch = group / tiles_b / tiles_a;
    uint x_start = push.x_offset;
    uint y_start = push.y_offset;
    for (uint d = 0u; d < RANK; ++d) {
        uint index = batch % push.extents[d];
        batch /= push.extents[d];
        x_start += index * push.x_strides[d];
        y_start += index * push.y_strides[d];
    }
    uint inner = gl_LocalInvocationIndex % TILE;
    uint outer = gl_LocalInvocationIndex / TILE;
    for (uint i = outer; i < TILE; i += ROWS)
        if (first_b + i < push.b && first_a + inner < push.a)
            tile[i][inner] = x[x_start + (first_b + i) * push.x_stride_b + first_a + inner];
    barrier();
    for (uint i = outer; i < TILE; i += ROWS)
        if (first_a + i < push.a && first_b + inner < push.b)
            y[y_start + (first_a + i) * push.y_stride_a + first_b + inner] = tile[inner][i];
}
