// Which keys a query sees and which queries see a key, as ranges, for attention over ranges.
//
// Of sample b: len = min(lengths[b], S), first = first_positions[b]; each where it is given, else
// S and max(S - T, 0). Query i is at position p = first + i. It sees the keys j with
//   j < len;  j <= p if causal;  p - window < j, and j < p + window if not causal;
//   documents[b][j] = documents[b][p] where documents are given (p < S);
// and none if attention is causal, lengths are given and p >= len: it is padding.
// documents[b][j] is the first position of the document of position j.
#include "../include/arith.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
    uint batch, queries, keys, causal;
    uint window;  // 2^30 where there is none
    uint has_documents, has_lengths, has_first_positions;
} push;

layout(set = 0, binding = 0) readonly buffer Documents { uint documents[]; };
layout(set = 0, binding = 1) readonly buffer Lengths { uint lengths[]; };
layout(set = 0, binding = 2) readonly buffer FirstPositions { uint first_positions[]; };
// (the document's first key, begin, end, the position).
layout(set = 0, binding = 3) writeonly buffer Ranges { uvec4 ranges[]; };

const uint FARTHEST = 1u << 29;

uint length_of(uint sample_idx) {
    return push.has_lengths != 0u ? min(lengths[sample_idx], push.keys) : push.keys;
}

uint first_of(uint sample_idx) {
    if (push.has_first_positions != 0u) return min(first_positions[sample_idx], FARTHEST);
    return push.keys > push.queries ? push.keys - push.queries : 0u;
}

// a - b, or 0.
uint less(uint a, uint b) { return a > b ? a - b : 0u; }

// The first and the end of the document that position p < S belongs to.
uvec2 document_of(uint sample_idx, uint p) {
    if (push.has_documents == 0u) return uvec2(0u, push.keys);
    uint base = sample_idx * push.keys;
    // The first later position whose document begins after p: starts never decrease.
    uint low = p + 1u;
    uint high = push.keys;
    while (low < high) {
        uint middle = (low + high) / 2u;
        if (documents[base + middle] > p) high = middle;
        else low = middle + 1u;
    }
    return uvec2(min(documents[base + p], p), low);
}
