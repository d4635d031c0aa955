// Packs words of 0 and 1 into a bool tensor, four bytes per word: one thread per word of it.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push { uint count; } push;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Result { uint result[]; };

void main() {
    uint word = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (4u * word >= push.count) return;
    uint packed = 0u;
    for (uint i = 4u * word; i < min(4u * word + 4u, push.count); ++i) packed |= x[i] << (8u * (i & 3u));
    result[word] = packed;
}
