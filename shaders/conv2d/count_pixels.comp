// Which pixels of a gradient count: counts[s, g, p] is 0 where that of every channel of group g is zero at pixel p of sample s,
// else 1. A subnormal is zero, a NaN is not. dy: [samples, groups, channels, pixels].
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint planes;  // samples times groups
    uint channels;
    uint pixels;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Gradient { float dy[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Counts { int counts[]; };

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.planes * push.pixels) return;
    uint plane = at / push.pixels;
    uint first = plane * push.channels * push.pixels + (at - plane * push.pixels);
    uint top = 0u;
    for (uint channel = 0u; channel < push.channels; ++channel)
        top = max(top, hlx_magnitude(dy[first + channel * push.pixels]));
    counts[at] = top != 0u ? 1 : 0;
}
