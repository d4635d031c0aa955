// Sums partials [shards, n] pairwise into result [n]: ((s0 + s1) + (s2 + s3)) + ...
//
// Neighbours are added, then neighbouring sums, and so on; an odd one out passes to the next
// level as it is. With CONTINUE the sum is added to the stored value. A thread has four elements,
// in vectors where n is a multiple of four.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint CONTINUE = 0u;

layout(push_constant) uniform Push {
    uint shards, n;
} push;

HLX_VIEWS(0, readonly restrict, float, Partials, partials)
HLX_VIEWS(1, restrict, float, Result, result)

// The sum of 2^level neighbours, reached by adding equals as a binary counter carries.
float shard_tree(uint element) {
    precise float waiting[16];
    uint top = 0u;
    for (uint shard = 0u; shard < push.shards; ++shard) {
        precise float carry = partials1[shard * push.n + element];
        for (uint bits = shard; (bits & 1u) != 0u; bits >>= 1) carry = hlx_add(waiting[--top], carry);
        waiting[top++] = carry;
    }
    precise float total = waiting[--top];
    while (top > 0u) total = hlx_add(waiting[--top], total);
    return total;
}

vec4 add(vec4 a, vec4 b) {
    return vec4(hlx_add(a.x, b.x), hlx_add(a.y, b.y), hlx_add(a.z, b.z), hlx_add(a.w, b.w));
}

// The same tree without a stack for the usual powers of two; `stride` is n / 4.
vec4 tree_of_2(uint i, uint stride) { return add(partials4[i], partials4[i + stride]); }
vec4 tree_of_4(uint i, uint stride) {
    return add(tree_of_2(i, stride), tree_of_2(i + 2u * stride, stride));
}
vec4 tree_of_8(uint i, uint stride) {
    return add(tree_of_4(i, stride), tree_of_4(i + 4u * stride, stride));
}

void main() {
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    bool usual = push.shards == 8u || push.shards == 4u || push.shards == 2u;
    if (usual && (push.n & 3u) == 0u) {
        uint stride = push.n >> 2;
        if (i >= stride) return;
        precise vec4 total = vec4(0.0);
        if (push.shards == 8u) total = tree_of_8(i, stride);
        else if (push.shards == 4u) total = tree_of_4(i, stride);
        else total = tree_of_2(i, stride);
        if (CONTINUE != 0u) total = add(result4[i], total);
        result4[i] = total;
        return;
    }
    uint end = min(4u * i + 4u, push.n);
    for (uint element = 4u * i; element < end; ++element) {
        precise float total = shard_tree(element);
        if (CONTINUE != 0u) total = hlx_add(result1[element], total);
        result1[element] = total;
    }
}
