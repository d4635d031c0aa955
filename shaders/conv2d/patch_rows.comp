// The patches of images, stored for a product: patches[z, k, n], k < M, the element of tap n of pixel k
// of the samples of a shard, where z is the shard and the group. Terms from K on are zero.
//
// A thread has one tap of eight pixels.
#include "images.glsl"

layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Rows { float rows[]; };

void main() {
    uint n = push.column_first + gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x;
    uint z = push.z_first + gl_WorkGroupID.z;
    if (n >= push.n) return;
    uint shard = z / push.groups;
    uint first_plane = (z - shard * push.groups) * (push.image_channels / push.groups);
    Part tap = tap_part(n);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint k = gl_WorkGroupID.y * 8u + i;
        if (k >= push.m) return;
        float value = 0.0;
        uint element;
        if (k < push.k && element_of(pixel_part(shard * push.k + k, first_plane), tap, element))
            value = x[element];
        rows[(z * push.m + k) * push.n + n] = value;
    }
}
