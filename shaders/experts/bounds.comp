// bounds[e shards + s] = the first row p of expert e whose token is not of a shard before s; the last
// bound is the number of rows.
//
// Rows are sorted by expert and token. experts, rows [n]: the expert and the token of each row; bounds
// [groups + 1]. A shard has shard_tokens tokens.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n, groups, shards, shard_tokens;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Experts { uint experts[]; };
layout(set = 0, binding = 1) readonly restrict buffer Rows { uint rows[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Bounds { uint bounds[]; };

void main() {
    uint group = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (group > push.groups) return;
    uint expert = group / push.shards;
    uint token = group % push.shards * push.shard_tokens;
    uint first = 0u;
    uint end = push.n;
    if (group == push.groups) first = end;
    while (first < end) {
        uint middle = first + (end - first) / 2u;
        bool is_before = experts[middle] < expert || (experts[middle] == expert && rows[middle] < token);
        if (is_before) first = middle + 1u;
        else end = middle;
    }
    bounds[group] = first;
}
