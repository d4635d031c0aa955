// The frame of a column reduction: one chain over the rows of a shard, in their order.
//
// A workgroup has HLX_WIDTH columns of a shard. All its threads load tiles of rows into shared
// memory, and one thread a chain adds a tile up while the next tile is on its way to registers:
// a chain alone would wait for one load after the other, and there are too few of them (shards x
// columns) to fill a GPU. Narrow groups spread the few columns over many cores. Where there are
// enough chains, each has its own thread, which loads HLX_AHEAD rows at a time itself.
//
// A shader defines HLX_CHAINS (chains a column, 1 or 2), includes this file, and then defines
//   vec4 fetch(uint row, uint col)         what a thread loads for an element
//   vec2 factors(vec4 loaded)              the factors (a, b) of its terms
//   float stored(uint chain, uint at)      where the chain goes on from, with CONTINUE
//   void store(uint chain, uint at, float total)
// Chain 0 of one is total + a; of two, chain 0 is fma(a, b, total) and chain 1 is total + a.
#include "arith.glsl"

layout(local_size_x = 256, local_size_x_id = 3) in;
layout(constant_id = 0) const uint CONTINUE = 0u;
layout(constant_id = 1) const uint HLX_WIDTH = 16u;
layout(constant_id = 2) const uint HLX_QUADS = 1u;  // times four neighbouring rows: a thread's loads
// 0 goes through tiles with 256 threads; otherwise a group has a thread per column and no tiles.
layout(constant_id = 4) const uint HLX_AHEAD = 0u;
const uint HLX_LOADS = HLX_AHEAD == 0u ? 1u : HLX_AHEAD;

layout(push_constant) uniform Push {
    uint shards, rows_per_shard, cols;
} push;

const uint HLX_STRIDE = 256u / HLX_WIDTH;
const uint HLX_TILE_ROWS = 4u * HLX_STRIDE * HLX_QUADS;

// Four neighbouring rows of a column are one vector: the chain, which alone would wait for each
// load from shared memory, reads four terms at once.
const uint HLX_SLOTS = HLX_AHEAD == 0u ? 256u * HLX_QUADS : 1u;
shared vec4 hlx_tiles[2][HLX_CHAINS][HLX_SLOTS];

vec4 fetch(uint row, uint col);
vec2 factors(vec4 loaded);
float stored(uint chain, uint at);
void store(uint chain, uint at, float total);

// fma(a, 1, total) is total + a: with two chains a column, both run in one subgroup without a
// branch.
float hlx_join(float total, float a, float b) {
#if HLX_CHAINS == 2
    return hlx_fma(a, b, total);
#else
    return hlx_add(total, a);
#endif
}

// Continues the chain over a tile's first rows.
float hlx_add_tile(uint tile, uint rows, uint chain, float total) {
    precise float sum = total;
    uint at = gl_LocalInvocationID.x % HLX_WIDTH;
    precise vec4 b = vec4(1.0);
    for (uint row = 0u; row < rows; row += 4u) {
        precise vec4 a = hlx_tiles[tile][0][at];
#if HLX_CHAINS == 2
        if (chain == 0u) b = hlx_tiles[tile][1][at];
#endif
        at += HLX_WIDTH;
        sum = hlx_join(sum, a.x, b.x);
        if (row + 1u < rows) sum = hlx_join(sum, a.y, b.y);
        if (row + 2u < rows) sum = hlx_join(sum, a.z, b.z);
        if (row + 3u < rows) sum = hlx_join(sum, a.w, b.w);
    }
    return sum;
}

// A step of a column's chains: x for chain 0 and y for chain 1.
vec2 hlx_step(vec2 totals, vec4 loaded) {
    precise vec2 x = factors(loaded);
#if HLX_CHAINS == 2
    return vec2(hlx_fma(x.x, x.y, totals.x), hlx_add(totals.y, x.x));
#else
    return vec2(hlx_add(totals.x, x.x), 0.0);
#endif
}

// The chains of one column by one thread, with HLX_LOADS rows under way.
void hlx_add_column(uint begin, uint end, uint col, uint at) {
    precise vec2 totals = vec2(0.0);
    if (CONTINUE != 0u) {
        totals.x = stored(0u, at);
#if HLX_CHAINS == 2
        totals.y = stored(1u, at);
#endif
    }
    uint row = begin;
    for (; row + HLX_LOADS <= end; row += HLX_LOADS) {
        precise vec4 loaded[HLX_LOADS];
        [[unroll]] for (uint j = 0u; j < HLX_LOADS; ++j) loaded[j] = fetch(row + j, col);
        [[unroll]] for (uint j = 0u; j < HLX_LOADS; ++j) totals = hlx_step(totals, loaded[j]);
    }
    for (; row < end; ++row) totals = hlx_step(totals, fetch(row, col));
    store(0u, at, hlx_pos0(totals.x));
#if HLX_CHAINS == 2
    store(1u, at, hlx_pos0(totals.y));
#endif
}

void main() {
    uint blocks = (push.cols + HLX_WIDTH - 1u) / HLX_WIDTH;
    uint shard = hlx_group() / blocks;
    if (shard >= push.shards) return;
    uint thread = gl_LocalInvocationID.x;
    uint col = (hlx_group() % blocks) * HLX_WIDTH + thread % HLX_WIDTH;
    uint load_col = min(col, push.cols - 1u);
    uint begin = shard * push.rows_per_shard;
    uint end = begin + push.rows_per_shard;
    uint chain = thread / HLX_WIDTH;
    uint at = shard * push.cols + col;
    if (HLX_AHEAD != 0u) {
        if (col < push.cols) hlx_add_column(begin, end, col, at);
        return;
    }
    bool adds = chain < HLX_CHAINS && col < push.cols;
    precise float total = 0.0;
    if (CONTINUE != 0u && adds) total = stored(chain, at);

    uint tile = 0u;
    for (uint first = begin; first < end + HLX_TILE_ROWS; first += HLX_TILE_ROWS) {
        precise vec4 loaded[4u * HLX_QUADS];
        uint row = first + 4u * (thread / HLX_WIDTH);
        if (first < end)
            [[unroll]] for (uint j = 0u; j < 4u * HLX_QUADS; ++j)
                loaded[j] = fetch(min(row + j % 4u + 4u * HLX_STRIDE * (j / 4u), end - 1u), load_col);
        if (adds && first > begin)
            total = hlx_add_tile(tile ^ 1u, min(HLX_TILE_ROWS, end - (first - HLX_TILE_ROWS)), chain, total);
        if (first < end)
            [[unroll]] for (uint q = 0u; q < HLX_QUADS; ++q) {
                precise vec2 x = factors(loaded[4u * q]);
                precise vec2 y = factors(loaded[4u * q + 1u]);
                precise vec2 z = factors(loaded[4u * q + 2u]);
                precise vec2 w = factors(loaded[4u * q + 3u]);
                hlx_tiles[tile][0][thread + 256u * q] = vec4(x.x, y.x, z.x, w.x);
#if HLX_CHAINS == 2
                hlx_tiles[tile][1][thread + 256u * q] = vec4(x.y, y.y, z.y, w.y);
#endif
            }
        barrier();
        tile ^= 1u;
    }
    if (adds) store(chain, at, hlx_pos0(total));
}
