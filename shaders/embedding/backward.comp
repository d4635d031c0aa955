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

layout(set = 0, binding = 2) restrict buffer Dweight1 { float dweight1[]; };
layout(set = 0, binding = 2) restrict buffer Dweight4 { vec4 dweight4[]; };

#include "tokens.glsl"

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
        else if (adds) total.x = add_singles(total.x, count, unit, units);
        barrier();
    }
    if (!adds) return;
    total = positive_zeros(total);
    if (whole) dweight4[target] = total;
    else dweight1[target] = total.x;
}
