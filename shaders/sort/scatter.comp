// Moves each pair to its digit's part of the line, in the order of the pairs: one pass of a radix
// sort. A thread has 16 neighbouring pairs; how many of each digit lie before them in the block is a
// scan over the threads, of two counters of 16 bits per word.
//
// With LAST the places go to result [lines, k], and nowhere else.
#include "radix.glsl"

layout(constant_id = 3) const uint LAST = 0u;

layout(set = 0, binding = 1) readonly restrict buffer Places { uint places[]; };
layout(set = 0, binding = 2) readonly restrict buffer Begins { uint begins[]; };
layout(set = 0, binding = 3) writeonly restrict buffer ResultKeys { uint result_keys[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Result { uint result[]; };

shared uint ranks[DIGITS / 2u][256];

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint line = hlx_group() / push.blocks;
    if (line >= push.lines) return;
    uint block = hlx_group() - line * push.blocks;
    uint begin = block * BLOCK + thread * RUN;
    uint line_place = FIRST != 0u ? hlx_line_place(line) : 0u;
    [[unroll]] for (uint w = 0u; w < DIGITS / 2u; ++w) ranks[w][thread] = 0u;
    uint keys[RUN];
    [[unroll]] for (uint e = 0u; e < RUN; ++e)
        keys[e] = begin + e < push.n ? load_key(line, line_place, begin + e) : 0u;
    for (uint e = 0u; e < RUN && begin + e < push.n; ++e) {
        uint digit = digit_of(keys[e]);
        ranks[digit / 2u][thread] += 1u << (16u * (digit & 1u));
    }
    uint own[DIGITS / 2u];
    [[unroll]] for (uint w = 0u; w < DIGITS / 2u; ++w) own[w] = ranks[w][thread];
    barrier();
    for (uint distance = 1u; distance < 256u; distance *= 2u) {
        uint left[DIGITS / 2u];
        [[unroll]] for (uint w = 0u; w < DIGITS / 2u; ++w)
            left[w] = thread >= distance ? ranks[w][thread - distance] : 0u;
        barrier();
        [[unroll]] for (uint w = 0u; w < DIGITS / 2u; ++w) ranks[w][thread] += left[w];
        barrier();
    }
    [[unroll]] for (uint w = 0u; w < DIGITS / 2u; ++w) ranks[w][thread] -= own[w];
    for (uint e = 0u; e < RUN && begin + e < push.n; ++e) {
        uint digit = digit_of(keys[e]);
        uint shift = 16u * (digit & 1u);
        uint rank = (ranks[digit / 2u][thread] >> shift) & 0xffffu;
        ranks[digit / 2u][thread] += 1u << shift;
        uint to = begins[(line * DIGITS + digit) * push.blocks + block] + rank;
        uint place = FIRST != 0u ? begin + e : places[line * push.n + begin + e];
        if (LAST == 0u) {
            result_keys[line * push.n + to] = keys[e];
            result[line * push.n + to] = place;
        } else if (to < push.k) {
            result[result_place(line, to)] = place;
        }
    }
}
