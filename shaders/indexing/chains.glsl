// The chain over each piece of a target's contributions, one thread per piece and LINES lines.
//
// A target with one piece is finished here. Otherwise the first piece's value goes to
// partials[0, j / 4096, line] and j to heads[j / 4096], the other pieces' to partials[1, ...], where
// j is the piece's first contribution: no two of a kind share a slot. With four lines (FOUR) all of a
// contribution's and of a target's lie side by side in fours.
#include "segments.glsl"

#ifdef FOUR
#define WORDS uvec4
const uint LINES = 4u;

uvec4 add(uvec4 a, uvec4 b) {
    return uvec4(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w));
}

uvec4 stored(uvec4 total) {
    return uvec4(stored(total.x), stored(total.y), stored(total.z), stored(total.w));
}
#else
#define WORDS uint
const uint LINES = 1u;
#endif

layout(set = 0, binding = 1) readonly restrict buffer Positions { uint positions[]; };
layout(set = 0, binding = 2) readonly restrict buffer Starts { uint starts[]; };
layout(set = 0, binding = 3) readonly restrict buffer Source { WORDS source[]; };
layout(set = 0, binding = 4) restrict buffer Target { WORDS target[]; };
layout(set = 0, binding = 5) restrict buffer Partials { WORDS partials[]; };
layout(set = 0, binding = 6) restrict buffer Heads { uint heads[]; };

const uint AHEAD = 4u;

void main() {
    uint element = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint lines = push.lines / LINES;
    uint j = element / lines;
    if (j >= push.count) return;
    uint line = LINES * (element - j * lines);
    uint key = keys[j];
    if (key == NO_TARGET) return;
    uint rank = j - starts[key];
    if (rank % PIECE != 0u) return;

    uint to = target_place(key, line) / LINES;
    uint line_place = BY_POSITION != 0u ? 0u : hlx_line_place(line);
    WORDS total = WORDS(0u);
    if (rank == 0u) total = target[to];
    uint end = min(j + PIECE, push.count);
    bool more = true;
    for (uint i = j; i < end && more; i += AHEAD) {
        WORDS words[AHEAD];
        bool own[AHEAD];
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) {
            own[a] = i + a < end && keys[min(i + a, end - 1u)] == key;
            words[a] = WORDS(0u);
            if (!own[a]) continue;
            uint position = positions[i + a];
            uint place = BY_POSITION != 0u ? hlx_line_place(position)
                                           : line_place + position * push.axis_stride;
            words[a] = source[place / LINES];
        }
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a)
            if (own[a]) total = add(total, words[a]);
        more = own[AHEAD - 1u];
    }
    bool last = end == push.count || keys[end] != key;
    uint slot = j / PIECE;
    if (rank == 0u && last) {
        target[to] = stored(total);
    } else if (rank == 0u) {
        partials[(slot * push.lines + line) / LINES] = total;
        if (line == 0u) heads[slot] = j;
    } else {
        uint slots = (push.count + PIECE - 1u) / PIECE;
        partials[((slots + slot) * push.lines + line) / LINES] = total;
    }
}
