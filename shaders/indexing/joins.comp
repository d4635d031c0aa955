// Adds up the pieces of each target that has several, in order: a thread per target and per line.
#include "segments.glsl"

layout(set = 0, binding = 1) readonly restrict buffer Partials { uint partials[]; };
layout(set = 0, binding = 2) readonly restrict buffer Heads { uint heads[]; };
layout(set = 0, binding = 3) restrict buffer Target { uint target[]; };

void main() {
    uint element = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint slot = element / push.lines;
    uint slots = (push.count + PIECE - 1u) / PIECE;
    if (slot >= slots || heads[slot] == 0xffffffffu) return;
    uint line = element - slot * push.lines;
    uint first = heads[slot];
    uint key = keys[first];
    uint total = partials[slot * push.lines + line];
    for (uint j = first + PIECE; j < push.count && keys[j] == key; j += PIECE)
        total = add(total, partials[(slots + j / PIECE) * push.lines + line]);
    target[target_place(key, line)] = stored(total);
}
