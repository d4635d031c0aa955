// Adds the gradient's rows by token: dweight[s, ids[p], :] += dy[p, :] over the positions p of
// shard s, in their order; ids [shards, rows_per_shard], dweight [shards, vocabulary, width].
//
// A workgroup has one position and 256 columns, or vectors of four. It works only if its position is the first of
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
layout(set = 0, binding = 1) readonly restrict buffer Dy1 { float dy1[]; };
layout(set = 0, binding = 1) readonly restrict buffer Dy4 { vec4 dy4[]; };
layout(set = 0, binding = 2) restrict buffer Dweight1 { float dweight1[]; };
layout(set = 0, binding = 2) restrict buffer Dweight4 { vec4 dweight4[]; };

const uint CHUNK = 1024u;

shared uint masks[CHUNK / 32u];
shared uint matches[CHUNK];
shared uint found;
shared uint seen_before;

// Whether the token stands in the shard before position `end`, all threads together.
bool is_repeated(uint token, uint begin, uint end) {
    if (gl_LocalInvocationID.x == 0u) seen_before = 0u;
    barrier();
    uint own = 0u;
    for (uint p = begin + gl_LocalInvocationID.x; p < end; p += 256u) own |= uint(ids[p] == token);
    if (own != 0u) atomicOr(seen_before, 1u);
    barrier();
    return seen_before != 0u;
}

// Lists the positions of the token in [begin, end), at most CHUNK, in order; returns their number.
// Only the threads that have one count the bits before it: most chunks hold none or one.
uint list_matches(uint token, uint begin, uint end) {
    uint thread = gl_LocalInvocationID.x;
    if (thread < CHUNK / 32u) masks[thread] = 0u;
    if (thread == 0u) found = 0u;
    barrier();
    uint own = 0u;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint p = begin + 4u * thread + j;
        if (p < end && ids[p] == token) own |= 1u << j;
    }
    uint word = thread / 8u;
    uint shift = 4u * (thread % 8u);
    if (own != 0u) {
        atomicOr(masks[word], own << shift);
        atomicAdd(found, uint(bitCount(own)));
    }
    barrier();
    uint total = found;
    if (own != 0u) {
        uint rank = uint(bitCount(masks[word] & ((1u << shift) - 1u)));
        for (uint w = 0u; w < word; ++w) rank += uint(bitCount(masks[w]));
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if ((own & (1u << j)) != 0u) matches[rank++] = begin + 4u * thread + j;
    }
    barrier();
    return total;
}

vec4 add(vec4 a, vec4 b) {
    return vec4(hlx_add(a.x, b.x), hlx_add(a.y, b.y), hlx_add(a.z, b.z), hlx_add(a.w, b.w));
}

// The chain over `count` listed rows in column `quad` of four.
vec4 add_rows(vec4 total, uint count, uint quad, uint quads) {
    precise vec4 sum = total;
    uint k = 0u;
    for (; k + 8u <= count; k += 8u) {
        precise vec4 values[8];
        [[unroll]] for (uint j = 0u; j < 8u; ++j) values[j] = dy4[matches[k + j] * quads + quad];
        [[unroll]] for (uint j = 0u; j < 8u; ++j) sum = add(sum, values[j]);
    }
    for (; k < count; ++k) sum = add(sum, dy4[matches[k] * quads + quad]);
    return sum;
}

void main() {
    // Columns in vectors where the width is a multiple of four.
    bool whole = (push.width & 3u) == 0u;
    uint units = whole ? push.width >> 2 : push.width;
    uint blocks = (units + 255u) / 256u;
    uint position = hlx_group() / blocks;
    if (position >= push.rows) return;
    uint token = ids[position];
    uint shard = position / push.rows_per_shard;
    uint begin = shard * push.rows_per_shard;
    if (token >= push.vocabulary || is_repeated(token, begin, position)) return;

    uint unit = (hlx_group() % blocks) * 256u + gl_LocalInvocationID.x;
    bool adds = unit < units;
    uint target = (shard * push.vocabulary + token) * units + unit;
    precise vec4 total = vec4(0.0);
    if (adds && whole) total = dweight4[target];
    else if (adds) total.x = dweight1[target];
    uint end = begin + push.rows_per_shard;
    for (uint chunk = position; chunk < end; chunk += CHUNK) {
        uint count = list_matches(token, chunk, min(end, chunk + CHUNK));
        if (adds && whole) total = add_rows(total, count, unit, units);
        else if (adds)
            for (uint k = 0u; k < count; ++k)
                total.x = hlx_add(total.x, dy1[matches[k] * units + unit]);
        barrier();
    }
    if (!adds) return;
    total = vec4(hlx_pos0(total.x), hlx_pos0(total.y), hlx_pos0(total.z), hlx_pos0(total.w));
    if (whole) dweight4[target] = total;
    else dweight1[target] = total.x;
}
