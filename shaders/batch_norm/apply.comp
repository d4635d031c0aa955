// Batch norm, forward: y = fma((x - mean) * rstd, weight, bias) with the shard's statistics of the
// channel. With TRACKED the first thread adds to tracked[0] the shards of two or more terms.
// x, y: [shards * samples, channels, length]; weight, bias: [channels]; stats: [shards, channels] of
// (mean, rstd); tracked: [1].
#include "planes.glsl"

layout(constant_id = 6) const uint TRACKED = 0u;

HLX_VIEWS(1, readonly restrict, float, X, x)
layout(set = 0, binding = 2) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 3) readonly restrict buffer Bias { float bias[]; };
layout(set = 0, binding = 4) readonly restrict buffer Stats { vec2 stats[]; };
HLX_VIEWS(5, writeonly restrict, float, Y, y)
layout(set = 0, binding = 6) restrict buffer Tracked { uint tracked[]; };

float normalised(float x, vec2 mean_rstd, float gain, float shift) {
    return hlx_fma(hlx_mul(hlx_sub(x, mean_rstd.x), mean_rstd.y), gain, shift);
}

void count_shards() {
    uint empty = COUNTED != 0u ? counts[0] : 0u;
    uint n = 0u;
    for (uint shard = 0u; shard < push.shards; ++shard) {
        uint first = shard * push.samples;
        uint real = push.samples - (empty <= first ? 0u : min(empty - first, push.samples));
        if (real * push.extent >= 2u) ++n;
    }
    tracked[0] += n;
}

void main() {
    uint thread = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (TRACKED != 0u && thread == 0u) count_shards();
    if (WHOLE != 0u) {
        if (4u * thread >= push.count) return;
        Plane p = plane_of(4u * thread);
        precise vec2 s = stats[p.at];
        precise float w = weight[p.channel];
        precise float b = bias[p.channel];
        precise vec4 x = x4[thread];
        y4[thread] = vec4(normalised(x.x, s, w, b), normalised(x.y, s, w, b),
                          normalised(x.z, s, w, b), normalised(x.w, s, w, b));
        return;
    }
    // Neighbouring threads have neighbouring elements.
    uint first = hlx_group() * 1024u + gl_LocalInvocationID.x;
    for (uint e = first; e < min(first + 1024u, push.count); e += 256u) {
        Plane p = plane_of(e);
        y1[e] = normalised(x1[e], stats[p.at], weight[p.channel], bias[p.channel]);
    }
}
