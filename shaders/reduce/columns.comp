// Sums each column of x [shards, rows_per_shard, cols] over the rows of its shard, in their order.
//
// One chain per element of result [shards, cols]; it starts from +0, or with CONTINUE from the
// stored value.
#define HLX_CHAINS 1
#include "../include/columns.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) restrict buffer Result { float result[]; };

vec4 fetch(uint row, uint col) { return vec4(x[row * push.cols + col], 0.0, 0.0, 0.0); }
vec2 factors(vec4 loaded) { return loaded.xy; }
float stored(uint chain, uint at) { return result[at]; }
void store(uint chain, uint at, float total) { result[at] = total; }
