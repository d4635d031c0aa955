// Philox words and what is drawn from them: out[8 i ..] = four words of counter (i, 1, 2, 3) under
// the pushed key, two uniform values of the first two, and two normal ones.
#version 450
#include "../include/random.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Push { uint count; uint key_0; uint key_1; } push;
layout(set = 0, binding = 0) writeonly buffer Out { uint result[]; };

void main() {
    uint index = hlx_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (index >= push.count) return;
    uvec4 words = hlx_philox4x32(uvec4(index, 1u, 2u, 3u), uvec2(push.key_0, push.key_1));
    precise vec2 normal = hlx_normal_pair(words.x, words.y);
    uint at = 8u * index;
    result[at] = words.x;
    result[at + 1u] = words.y;
    result[at + 2u] = words.z;
    result[at + 3u] = words.w;
    result[at + 4u] = floatBitsToUint(hlx_uniform(words.x));
    result[at + 5u] = floatBitsToUint(hlx_uniform(words.y));
    result[at + 6u] = floatBitsToUint(normal.x);
    result[at + 7u] = floatBitsToUint(normal.y);
}
