// Batch norm backward, input: with n = (x - mean) * rstd and (a, b) the means of dy and of dy n over
// the channel's terms in the shard,
//   dx = (weight * rstd) * ((dy - a) - n * b), and +0 for samples that are not real.
// x, dy, dx: [shards * samples, channels, length]; weight: [channels]; stats: [shards, channels] of
// (mean, rstd); means: [shards, channels] of (a, b).
#include "planes.glsl"

HLX_VIEWS(1, readonly restrict, float, X, x)
HLX_VIEWS(2, readonly restrict, float, DY, dy)
layout(set = 0, binding = 3) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 4) readonly restrict buffer Stats { vec2 stats[]; };
layout(set = 0, binding = 5) readonly restrict buffer Means { vec2 means[]; };
HLX_VIEWS(6, writeonly restrict, float, DX, dx)

float slope(float x, float dy, vec2 mean_rstd, vec2 ab, float gain) {
    precise float normal = hlx_mul(hlx_sub(x, mean_rstd.x), mean_rstd.y);
    precise float around = hlx_sub(hlx_sub(dy, ab.x), hlx_mul(normal, ab.y));
    return hlx_mul(hlx_mul(gain, mean_rstd.y), around);
}

void main() {
    uint thread = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (WHOLE != 0u) {
        if (4u * thread >= push.count) return;
        Plane p = plane_of(4u * thread);
        precise vec2 s = stats[p.at];
        precise vec2 ab = means[p.at];
        precise float w = weight[p.channel];
        precise vec4 x = x4[thread];
        precise vec4 g = dy4[thread];
        vec4 d = vec4(slope(x.x, g.x, s, ab, w), slope(x.y, g.y, s, ab, w),
                      slope(x.z, g.z, s, ab, w), slope(x.w, g.w, s, ab, w));
        dx4[thread] = p.real ? d : vec4(0.0);
        return;
    }
    uint first = hlx_group() * 1024u + gl_LocalInvocationID.x;
    for (uint e = first; e < min(first + 1024u, push.count); e += 256u) {
        Plane p = plane_of(e);
        precise float d = slope(x1[e], dy1[e], stats[p.at], means[p.at], weight[p.channel]);
        dx1[e] = p.real ? d : 0.0;
    }
}
