// The gradient of a convolution's output, stored for a product: rows[z, n, k], k < M, that of output
// channel n of the group at pixel k of the samples of a shard, where z is the shard and the group.
// Terms from K on are zero.
//
// A thread has one pixel of eight channels.
#include "images.glsl"

layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer Gradient { float dy[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Rows { float rows[]; };

void main() {
    uint k = push.column_first + gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x;
    uint z = push.z_first + gl_WorkGroupID.z;
    if (k >= push.m) return;
    uint shard = z / push.groups;
    uint index = shard * push.k + k;
    uint sample_idx = DIVIDED(index, pixels);
    uint first_plane = (sample_idx * push.groups + z - shard * push.groups) * push.n;
    uint pixel = index - sample_idx * push.pixels;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint n = gl_WorkGroupID.y * 8u + i;
        if (n >= push.n) return;
        float value = 0.0;
        if (k < push.k) value = dy[(first_plane + n) * push.pixels + pixel];
        rows[(z * push.n + n) * push.m + k] = value;
    }
}
