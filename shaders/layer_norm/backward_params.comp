// Layer norm backward, parameters: a column sum within each shard, rows in order, with
// n = (x - mean) * rstd:
//   dweight[s, c] = chain over the shard's rows of fma(dy, n, acc), dbias[s, c] = that of acc + dy
// x, dy: [shards * rows_per_shard, C]; stats: [rows, 2] = (mean, rstd); dweight, dbias: [shards, C].
// With CONTINUE the chains go on from the stored values, otherwise they start from +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#define HLX_CHAINS 2
#include "../include/columns.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Stats { vec2 stats[]; };
layout(set = 0, binding = 2) readonly restrict buffer DY { float dy[]; };
layout(set = 0, binding = 3) restrict buffer DWeight { float dweight[]; };
layout(set = 0, binding = 4) restrict buffer DBias { float dbias[]; };

vec4 fetch(uint row, uint col) {
    uint at = row * push.cols + col;
    return vec4(dy[at], x[at], stats[row]);
}

vec2 factors(vec4 loaded) {
    return vec2(loaded.x, hlx_mul(hlx_sub(loaded.y, loaded.z), loaded.w));
}

float stored(uint chain, uint at) { return chain == 0u ? dweight[at] : dbias[at]; }

void store(uint chain, uint at, float total) {
    if (chain == 0u) dweight[at] = total;
    else dbias[at] = total;
}
