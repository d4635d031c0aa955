// What both passes of a radix sort share: pairs of a line in blocks of 4,096, one digit of 4 bits.
//
// With FIRST, keys are made of x, and a pair's place is its position; later passes read both from
// buffers [lines, n].
#include "sort.glsl"

layout(constant_id = 2) const uint FIRST = 0u;

const uint BLOCK = 4096u;
const uint DIGITS = 16u;
const uint RUN = BLOCK / 256u;  // elements of a thread

// The key of element i of a line; x holds keys except for the first pass.
uint load_key(uint line, uint line_place, uint i) {
    if (FIRST != 0u) return key_at(line_place + i * push.axis_stride);
    return x[line * push.n + i];
}

uint digit_of(uint key) { return (key >> push.shift) & (DIGITS - 1u); }
