// Layer norm backward, parameters: a column sum within each shard, rows in order, with
// n = (x - mean) * rstd:
//   dweight[s, c] = chain over the shard's rows of fma(dy, n, acc), dbias[s, c] = that of acc + dy
// x, dy: [shards * rows_per_shard, C]; stats: [rows, 2] = (mean, rstd); dweight, dbias: [shards, C].
// With accumulate the chains go on from the stored values, otherwise they start from +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/math.glsl"

// Small groups spread the few columns over many cores.
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 2) readonly buffer DY { float dy[]; };
layout(set = 0, binding = 3) buffer DWeight { float dweight[]; };
layout(set = 0, binding = 4) buffer DBias { float dbias[]; };
layout(push_constant) uniform Push {
    uint shards;
    uint rows_per_shard;
    uint cols;
    uint accumulate;
} push;

// Rows loaded ahead of the chain, which alone would wait for one load after the other.
const uint AHEAD = 8u;

void main() {
    uint groups_per_shard = (push.cols + 31u) / 32u;
    uint shard = hlx_group() / groups_per_shard;
    uint col = (hlx_group() % groups_per_shard) * 32u + gl_LocalInvocationID.x;
    if (shard >= push.shards || col >= push.cols) return;

    uint at = shard * push.cols + col;
    precise float weight_sum = push.accumulate != 0u ? dweight[at] : 0.0;
    precise float bias_sum = push.accumulate != 0u ? dbias[at] : 0.0;

    uint row = shard * push.rows_per_shard;
    uint end = row + push.rows_per_shard;
    precise float dys[AHEAD];
    precise float normals[AHEAD];
    for (; row + AHEAD <= end; row += AHEAD) {
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
            uint r = row + i;
            dys[i] = dy[r * push.cols + col];
            normals[i] =
                hlx_mul(hlx_sub(x[r * push.cols + col], stats[2u * r]), stats[2u * r + 1u]);
        }
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
            weight_sum = hlx_fma(dys[i], normals[i], weight_sum);
            bias_sum = hlx_add(bias_sum, dys[i]);
        }
    }
    for (; row < end; ++row) {
        precise float d = dy[row * push.cols + col];
        precise float normal =
            hlx_mul(hlx_sub(x[row * push.cols + col], stats[2u * row]), stats[2u * row + 1u]);
        weight_sum = hlx_fma(d, normal, weight_sum);
        bias_sum = hlx_add(bias_sum, d);
    }
    dweight[at] = hlx_pos0(weight_sum);
    dbias[at] = hlx_pos0(bias_sum);
}
