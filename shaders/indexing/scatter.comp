// Writes to each element of the target the source's element that won it, if one did.
//
// winners [elements of target] holds the number + 1 of the source's element, in row-major order of
// the index's shape, or 0. A thread has a word of the target; elements move as they are.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint BITS = 32u;  // of an element: 32, 16 or 8

layout(push_constant) uniform Push {
    uint count;  // elements of the target
    HLX_LINE_MEMBERS
} push;

#include "../include/lines.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Source { uint source[]; };
layout(set = 0, binding = 1) readonly restrict buffer Winners { uint winners[]; };
layout(set = 0, binding = 2) restrict buffer Target { uint target[]; };

const uint A_WORD = 32u / BITS;
const uint MASK = 0xffffffffu >> (32u - BITS);

void main() {
    uint word = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint first = word * A_WORD;
    if (first >= push.count) return;
    uint packed = target[word];
    bool changed = false;
    for (uint i = 0u; i < A_WORD && first + i < push.count; ++i) {
        uint winner = winners[first + i];
        if (winner == 0u) continue;
        uint place = hlx_line_place(winner - 1u);
        uint element = (source[place / A_WORD] >> (BITS * (place % A_WORD))) & MASK;
        packed = (packed & ~(MASK << (BITS * i))) | (element << (BITS * i));
        changed = true;
    }
    if (changed) target[word] = packed;
}
