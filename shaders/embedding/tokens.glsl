// What the embedding's gradients share: the positions of a token in their order, and the chain down
// the gradient's rows at those positions. A workgroup has 256 threads, all of which call these.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint rows, rows_per_shard, vocabulary, width;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
HLX_VIEWS(1, readonly restrict, float, Dy, dy)

const uint CHUNK = 1024u;

shared uint masks[CHUNK / 32u];
shared uint matches[CHUNK];
shared uint found;
shared uint seen_before;

// Whether the token occurs in [begin, end), all threads together.
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

// The same of one column.
float add_singles(float total, uint count, uint col, uint cols) {
    precise float sum = total;
    for (uint k = 0u; k < count; ++k) sum = hlx_add(sum, dy1[matches[k] * cols + col]);
    return sum;
}

// Declares a workgroup's position and its token; columns go in vectors where the width is a multiple of four.
#define POSITION \
    bool whole = (push.width & 3u) == 0u; \
    uint units = whole ? push.width >> 2 : push.width; \
    uint blocks = (units + 255u) / 256u; \
    uint position = hlx_group() / blocks; \
    if (position >= push.rows) return; \
    uint token = ids[position];

vec4 positive_zeros(vec4 x) {
    return vec4(hlx_pos0(x.x), hlx_pos0(x.y), hlx_pos0(x.z), hlx_pos0(x.w));
}
