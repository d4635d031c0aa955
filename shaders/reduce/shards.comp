// Sums partials [shards, n] pairwise into result [n]: ((s0 + s1) + (s2 + s3)) + ...
//
// Neighbours are added, then neighbouring sums, and so on; an odd one out passes to the next
// level as it is. With CONTINUE the sum is added to the stored value.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint CONTINUE = 0u;

layout(push_constant) uniform Push {
    uint shards;
    uint n;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Partials { float partials[]; };
layout(set = 0, binding = 1) restrict buffer Result { float result[]; };

// The sum of 2^level neighbours, reached by adding equals as a binary counter carries.
float shard_tree(uint element) {
    precise float waiting[16];
    uint top = 0u;
    for (uint shard = 0u; shard < push.shards; ++shard) {
        precise float carry = partials[shard * push.n + element];
        for (uint bits = shard; (bits & 1u) != 0u; bits >>= 1) carry = hlx_add(waiting[--top], carry);
        waiting[top++] = carry;
    }
    precise float total = waiting[--top];
    while (top > 0u) total = hlx_add(waiting[--top], total);
    return total;
}

// The same tree without a stack for the usual powers of two.
float tree_of_2(uint i) { return hlx_add(partials[i], partials[i + push.n]); }
float tree_of_4(uint i) { return hlx_add(tree_of_2(i), tree_of_2(i + 2u * push.n)); }
float tree_of_8(uint i) { return hlx_add(tree_of_4(i), tree_of_4(i + 4u * push.n)); }

void main() {
    uint element = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (element >= push.n) return;
    precise float total = 0.0;
    if (push.shards == 8u) total = tree_of_8(element);
    else if (push.shards == 4u) total = tree_of_4(element);
    else if (push.shards == 2u) total = tree_of_2(element);
    else total = shard_tree(element);
    if (CONTINUE != 0u) total = hlx_add(result[element], total);
    result[element] = total;
}
