// Products of matrices of 32-bit integers, which wrap: c[m, n] = sum over k of a[m, k] b[k, n], for
// each matrix of a batch. A workgroup has a tile of 16 x 16 sums; no order shows.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint batch, m, n, k;
    // Elements from row to row, from column to column, and from matrix to matrix.
    uint a_row, a_column, stride_a, b_row, b_column, stride_b, stride_c;
} push;

layout(set = 0, binding = 0) readonly restrict buffer A { uint a[]; };
layout(set = 0, binding = 1) readonly restrict buffer B { uint b[]; };
layout(set = 0, binding = 2) writeonly restrict buffer C { uint c[]; };

const uint SIDE = 16u;

shared uint a_tile[SIDE][SIDE];
shared uint b_tile[SIDE][SIDE];

void main() {
    uint across = (push.n + SIDE - 1u) / SIDE;
    uint down = (push.m + SIDE - 1u) / SIDE;
    uint tile = hlx_group();
    uint matrix = tile / (across * down);
    if (matrix >= push.batch) return;
    tile -= matrix * across * down;
    uint y = gl_LocalInvocationID.x / SIDE;
    uint x = gl_LocalInvocationID.x % SIDE;
    uint row = tile / across * SIDE + y;
    uint column = tile % across * SIDE + x;
    uint a_first = matrix * push.stride_a + row * push.a_row;
    uint b_first = matrix * push.stride_b + column * push.b_column;
    uint sum = 0u;
    for (uint first = 0u; first < push.k; first += SIDE) {
        bool has_a = row < push.m && first + x < push.k;
        bool has_b = column < push.n && first + y < push.k;
        a_tile[y][x] = 0u;
        if (has_a) a_tile[y][x] = a[a_first + (first + x) * push.a_column];
        b_tile[y][x] = 0u;
        if (has_b) b_tile[y][x] = b[b_first + (first + y) * push.b_row];
        barrier();
        for (uint i = 0u; i < SIDE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        barrier();
    }
    if (row < push.m && column < push.n)
        c[matrix * push.stride_c + row * push.n + column] = sum;
}
