// RMS norm backward, weight: a column sum within each shard, rows in order, with n = x * rstd:
//   dweight[s, c] = chain over the shard's rows of acc + dy n
// x, dy: [shards * rows_per_shard, C]; stats: [rows] = rstd; dweight: [shards, C].
// With CONTINUE the chains go on from the stored values, otherwise they start from +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#define HLX_CHAINS 1
#include "../include/columns.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 2) readonly restrict buffer DY { float dy[]; };
layout(set = 0, binding = 3) restrict buffer DWeight { float dweight[]; };

vec4 fetch(uint row, uint col) {
    uint at = row * push.cols + col;
    return vec4(dy[at], x[at], stats[row], 0.0);
}

vec2 factors(vec4 loaded) {
    return vec2(hlx_mul(loaded.x, hlx_mul(loaded.y, loaded.z)), 0.0);
}

float stored(uint chain, uint at) { return dweight[at]; }
void store(uint chain, uint at, float total) { dweight[at] = total; }
