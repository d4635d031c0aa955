// A norm backward, parameters: a column sum within each shard, rows in order, with n as in kind.glsl:
//   CENTRED   dweight[s, c] = chain over the shard's rows of fma(dy, n, acc), dbias[s, c] = that of acc + dy
//   else      dweight[s, c] = that of acc + dy n
// x, dy: [shards * rows_per_shard, C]; stats: [rows, 2] or [rows]; dweight, dbias: [shards, C].
// With CONTINUE the chains go on from the stored values, otherwise they start from +0.
#include "../include/arith.glsl"
#ifdef CENTRED
#define HLX_CHAINS 2
#define STATS vec2
#else
#define HLX_CHAINS 1
#define STATS float
#endif
#include "../include/columns.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Stats { STATS stats[]; };
layout(set = 0, binding = 2) readonly restrict buffer DY { float dy[]; };
layout(set = 0, binding = 3) restrict buffer DWeight { float dweight[]; };
#ifdef CENTRED
layout(set = 0, binding = 4) restrict buffer DBias { float dbias[]; };
#endif

vec4 fetch(uint row, uint col) {
    uint at = row * push.cols + col;
#ifdef CENTRED
    return vec4(dy[at], x[at], stats[row]);
#else
    return vec4(dy[at], x[at], stats[row], 0.0);
#endif
}

#ifdef CENTRED
vec2 factors(vec4 loaded) {
    return vec2(loaded.x, hlx_mul(hlx_sub(loaded.y, loaded.z), loaded.w));
}

float stored(uint chain, uint at) { return chain == 0u ? dweight[at] : dbias[at]; }

void store(uint chain, uint at, float total) {
    if (chain == 0u) dweight[at] = total;
    else dbias[at] = total;
}
#else
vec2 factors(vec4 loaded) {
    return vec2(hlx_mul(loaded.x, hlx_mul(loaded.y, loaded.z)), 0.0);
}

float stored(uint chain, uint at) { return dweight[at]; }
void store(uint chain, uint at, float total) { dweight[at] = total; }
#endif
