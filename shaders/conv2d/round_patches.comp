// The patches of images rounded to 16 bits, in lines of whole units of 16 bytes: line r is of z = z_first + r / N, which is a group
// z % groups of a sample or of a shard, and of its pixel column_first + r % N of `sample_runs`; its K numbers are the group's
// taps (channel, ky, kx) in order (images.glsl), then zeros. A thread has a unit of the `runs` of a line.
#define HALF_TYPE 6
#include "../include/rounded.glsl"
#include "images.glsl"

layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { uvec4 y[]; };

void main() {
    uint unit = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint line = unit / push.runs;
    if (line >= push.m) return;
    uint z = push.z_first + line / push.n;
    uint index = z / push.groups * push.sample_runs + push.column_first + line % push.n;
    Part pixel = pixel_part(index, z % push.groups * (push.image_channels / push.groups));
    uvec4 packed = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint term = unit % push.runs * 8u + i;
        uint element;
        if (term < push.k && element_of(pixel, tap_part(term), element))
            packed[i / 2u] |= half_of(x[element]) << i % 2u * 16u;
    }
    y[unit] = packed;
}
