// Which pixels of patches count: counts[s, g, p] is 0 where all K taps of the planes of group g are zero at pixel p of sample s
// (images.glsl), else 1. A subnormal is zero, a NaN is not. M is samples times groups.
#include "../include/integer.glsl"
#include "images.glsl"

layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Counts { int counts[]; };

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (at >= push.m * push.pixels) return;
    uint plane = DIVIDED(at, pixels);
    uint sample_idx = plane / push.groups;
    uint index = sample_idx * push.pixels + (at - plane * push.pixels);
    Part pixel = pixel_part(index, plane % push.groups * (push.image_channels / push.groups));
    uint top = 0u;
    for (uint k = 0u; k < push.k; ++k) {
        uint element;
        if (element_of(pixel, tap_part(k), element)) top = max(top, hlx_magnitude(x[element]));
    }
    counts[at] = top != 0u ? 1 : 0;
}
