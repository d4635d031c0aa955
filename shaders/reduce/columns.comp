// Sums each column of x [shards, rows_per_shard, cols] over the rows of its shard, in their order.
//
// One chain an element of result [shards, cols]; it starts from +0, or with CONTINUE from the
// stored value. A workgroup has 32 columns of a shard: all threads load tiles of 64 rows, the next
// one while the first 32 threads add the one before, so that a long chain is not a chain of
// memory latencies.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint CONTINUE = 0u;

layout(push_constant) uniform Push {
    uint shards;
    uint rows_per_shard;
    uint cols;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) restrict buffer Result { float result[]; };

const uint WIDTH = 32u;
const uint TILE_ROWS = 64u;

shared float tiles[2][TILE_ROWS * WIDTH];

void load(uint tile, uint first_row, uint begin, uint col) {
    uint lane_row = gl_LocalInvocationID.x / WIDTH;
    [[unroll]] for (uint j = 0u; j < TILE_ROWS; j += 8u) {
        uint row = first_row + lane_row + j;
        if (row < push.rows_per_shard && col < push.cols)
            tiles[tile][gl_LocalInvocationID.x + j * WIDTH] = x[begin + row * push.cols + col];
    }
}

void main() {
    uint blocks = (push.cols + WIDTH - 1u) / WIDTH;
    uint shard = hlx_group() / blocks;
    if (shard >= push.shards) return;
    uint col = (hlx_group() % blocks) * WIDTH + gl_LocalInvocationID.x % WIDTH;
    uint begin = shard * push.rows_per_shard * push.cols;
    bool adds = gl_LocalInvocationID.x < WIDTH && col < push.cols;
    precise float total = 0.0;
    if (CONTINUE != 0u && adds) total = result[shard * push.cols + col];

    load(0u, 0u, begin, col);
    barrier();
    uint tile = 0u;
    for (uint first = 0u; first < push.rows_per_shard; first += TILE_ROWS) {
        load(tile ^ 1u, first + TILE_ROWS, begin, col);
        uint rows = min(TILE_ROWS, push.rows_per_shard - first);
        if (adds)
            for (uint row = 0u; row < rows; ++row)
                total = hlx_add(total, tiles[tile][row * WIDTH + gl_LocalInvocationID.x]);
        barrier();
        tile ^= 1u;
    }
    if (adds) result[shard * push.cols + col] = hlx_pos0(total);
}
