// Adds the gradient's rows by token: dweight[s, ids[p], :] += dy[p, :] over the positions p of
// shard s, in their order; ids [shards, rows_per_shard], dweight [shards, vocabulary, width].
//
// A workgroup has one position and 256 columns. It works only if its position is the first of
// its token in the shard; then it walks over the later ones, 1,024 at a time: the threads mark
// the matching positions in a bit mask, rank them into a list in order, and then each thread
// follows the list down its own column, eight loads ahead of the chain.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint rows;
    uint rows_per_shard;
    uint vocabulary;
    uint width;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
layout(set = 0, binding = 1) readonly restrict buffer Dy { float dy[]; };
layout(set = 0, binding = 2) restrict buffer Dweight { float dweight[]; };

const uint CHUNK = 1024u;

shared uint masks[CHUNK / 32u];
shared uint matches[CHUNK];
shared uint seen_before;

// Whether the token stands in the shard before position `end`, all threads together.
bool is_repeated(uint token, uint begin, uint end) {
    if (gl_LocalInvocationID.x == 0u) seen_before = 0u;
    barrier();
    uint found = 0u;
    for (uint p = begin + gl_LocalInvocationID.x; p < end; p += 256u) found |= uint(ids[p] == token);
    if (found != 0u) atomicOr(seen_before, 1u);
    barrier();
    return seen_before != 0u;
}

// Lists the positions of the token in [begin, end), at most CHUNK, in order; returns their number.
uint list_matches(uint token, uint begin, uint end) {
    uint thread = gl_LocalInvocationID.x;
    if (thread < CHUNK / 32u) masks[thread] = 0u;
    barrier();
    uint own = 0u;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint p = begin + 4u * thread + j;
        if (p < end && ids[p] == token) own |= 1u << j;
    }
    uint word = thread / 8u;
    uint shift = 4u * (thread % 8u);
    if (own != 0u) atomicOr(masks[word], own << shift);
    barrier();
    uint total = 0u;
    uint rank = 0u;
    for (uint w = 0u; w < CHUNK / 32u; ++w) {
        if (w == word) rank = total + uint(bitCount(masks[w] & ((1u << shift) - 1u)));
        total += uint(bitCount(masks[w]));
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if ((own & (1u << j)) != 0u) matches[rank++] = begin + 4u * thread + j;
    barrier();
    return total;
}

void main() {
    uint blocks = (push.width + 255u) / 256u;
    uint position = hlx_group() / blocks;
    if (position >= push.rows) return;
    uint token = ids[position];
    uint shard = position / push.rows_per_shard;
    uint begin = shard * push.rows_per_shard;
    if (token >= push.vocabulary || is_repeated(token, begin, position)) return;

    uint col = (hlx_group() % blocks) * 256u + gl_LocalInvocationID.x;
    bool adds = col < push.width;
    uint target = (shard * push.vocabulary + token) * push.width + col;
    precise float total = 0.0;
    if (adds) total = dweight[target];
    uint end = begin + push.rows_per_shard;
    for (uint chunk = position; chunk < end; chunk += CHUNK) {
        uint count = list_matches(token, chunk, min(end, chunk + CHUNK));
        uint k = 0u;
        for (; adds && k + 8u <= count; k += 8u) {
            precise float values[8];
            [[unroll]] for (uint j = 0u; j < 8u; ++j) values[j] = dy[matches[k + j] * push.width + col];
            [[unroll]] for (uint j = 0u; j < 8u; ++j) total = hlx_add(total, values[j]);
        }
        for (; adds && k < count; ++k) total = hlx_add(total, dy[matches[k] * push.width + col]);
        barrier();
    }
    if (adds) dweight[target] = hlx_pos0(total);
}
