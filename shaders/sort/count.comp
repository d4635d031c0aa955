// Counts the digits of each block: counts [lines, 16, blocks]. Integer sums, so no order shows.
#include "radix.glsl"

layout(set = 0, binding = 1) writeonly restrict buffer Counts { uint counts[]; };

shared uint histogram[DIGITS];

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint line = hlx_group() / push.blocks;
    if (line >= push.lines) return;
    uint block = hlx_group() - line * push.blocks;
    if (thread < DIGITS) histogram[thread] = 0u;
    barrier();
    // Four counters of 8 bits per word: a thread has 16 elements.
    uint own[4] = uint[4](0u, 0u, 0u, 0u);
    uint line_place = FIRST != 0u ? hlx_line_place(line) : 0u;
    [[unroll]] for (uint e = 0u; e < RUN; ++e) {
        uint i = block * BLOCK + 256u * e + thread;
        if (i >= push.n) continue;
        uint digit = digit_of(load_key(line, line_place, i));
        [[unroll]] for (uint w = 0u; w < 4u; ++w)
            own[w] += digit / 4u == w ? 1u << (8u * (digit & 3u)) : 0u;
    }
    [[unroll]] for (uint digit = 0u; digit < DIGITS; ++digit) {
        uint count = (own[digit / 4u] >> (8u * (digit & 3u))) & 255u;
        if (count != 0u) atomicAdd(histogram[digit], count);
    }
    barrier();
    if (thread < DIGITS) counts[(line * DIGITS + thread) * push.blocks + block] = histogram[thread];
}
