// y[p, n] = chain over k = 0, 1, .. of fma(x[p, k], B_e[k, n], acc), then -0 becomes +0; e is the expert
// of row p: bounds[e] <= p < bounds[e + 1]. B_e is [K,N] or, TRANS_B, stored [N,K].
//
// x [rows, K], y [rows, N]; the B of the launch's experts lie push.stride apart. The tiles of the first
// expert's rows come first, then those of the second's, and so on. How many there are is known on the
// device alone, so the grid has as many rows of workgroups as there can be; the last ones have no tile.
#include "../include/arith.glsl"

layout(constant_id = 0) const bool TRANS_B = false;
// Rows of x, B or y start at a multiple of four floats.
layout(constant_id = 1) const bool VECTOR_A = false;
layout(constant_id = 2) const bool VECTOR_B = false;
layout(constant_id = 3) const bool VECTOR_C = false;
const bool TRANS_A = false;
const bool EVEN = false;
const bool SUMMED = false;
const uint START = 0u;

layout(push_constant) uniform Push {
    // Rows of the grid's tiles.
    uint m, n, k, column_first, rows, first_expert, experts, stride;
} push;

HLX_WITH_VECTORS(0, readonly, float, X, x)
HLX_WITH_VECTORS(1, readonly, float, B, b)
layout(set = 0, binding = 2) readonly buffer Bounds { uint bounds[]; };
HLX_WITH_VECTORS(3, writeonly, float, Y, y)

#include "../matmul/tile.glsl"

#define RUNS

// The rows of the workgroup's tile, none if row_end is 0; its first row in the grid; its expert's B.
uint row_first = 0u;
uint row_end = 0u;
uint grid_row;
uint b_first;

void prepare(uvec2 corner) {
    grid_row = corner.x;
    uint tile = corner.x / TILE_M;
    for (uint e = 0u; e < push.experts; ++e) {
        uint first = bounds[push.first_expert + e];
        uint end = min(bounds[push.first_expert + e + 1u], push.rows);
        uint tiles = first < end ? (end - first + TILE_M - 1u) / TILE_M : 0u;
        if (tile < tiles) {
            row_first = first + tile * TILE_M;
            row_end = end;
            b_first = e * push.stride;
            return;
        }
        tile -= tiles;
    }
}

uint runs() {
    return 1u;
}

uint prepare_run(uint run) {
    return row_first < row_end ? push.k : 0u;
}

vec4 load_rows(uint row, uint k) {
    vec4 v = vec4(0.0);
    uint p = row_first + (row - grid_row);
    if (p >= row_end || k >= push.k) return v;
    uint at = p * push.k + k;
    if (VECTOR_A) return x_vectors[at >> 2];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) if (k + i < push.k) v[i] = x[at + i];
    return v;
}

vec4 load_columns(uint l, Place p) {
    vec4 v = vec4(0.0);
    uvec2 at = TRANS_B ? uvec2(p.outer, p.k) : uvec2(p.k, p.outer);
    uvec2 extent = TRANS_B ? uvec2(push.n, push.k) : uvec2(push.k, push.n);
    if (row_first >= row_end || at.x >= extent.x || at.y >= extent.y) return v;
    uint element = b_first + at.x * extent.y + at.y;
    if (VECTOR_B) return b_vectors[element >> 2];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) if (at.y + i < extent.y) v[i] = b[element + i];
    return v;
}

float start(uint row, uint column) {
    return 0.0;
}

void store_row(uint row, uint column, vec4 v) {
    uint p = row_first + (row - grid_row);
    if (p >= row_end) return;
    uint at = p * push.n + column;
    HLX_STORE_FOUR(i, VECTOR_C, y, at, column, push.n, v)
}

#include "../conv2d/chains.glsl"
