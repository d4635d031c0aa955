// The patches of images as integers, the rows with two digits of a product of quantised operands: row r is pixel column_first + r % N of sample
// z_first + r / N / groups and of group r / N % groups, and its K terms are the group's taps (channel, ky, kx) in order
// (images.glsl). digits: [2, rows, words], four of 8 bits per word, the upper ones first, zeros past K; exponents: [rows,
// pieces of 4,096 terms]. 32 threads have a piece of a row, and read it twice.
#include "../include/integer.glsl"
#include "images.glsl"
#include "../integer/tops_of_rows.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Exponents { int exponents[]; };

// Words of a piece.
const uint PIECE = HLX_PIECE / 4u;

// Terms 4 i .. 4 i + 3 of a pixel's patch, zeros past its end.
vec4 load(Part pixel, uint i) {
    vec4 v = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint element;
        if (4u * i + j < push.k && element_of(pixel, tap_part(4u * i + j), element)) v[j] = x[element];
    }
    return v;
}

void main() {
    uint words = push.runs;
    uint pieces = max((words + PIECE - 1u) / PIECE, 1u);
    DECLARE_LANE
    uint at_piece = hlx_group() * ROWS + own;
    uint row = at_piece / pieces;
    uint first = at_piece % pieces * PIECE + lane;
    uint end = min((at_piece % pieces + 1u) * PIECE, words);
    uint read_row = min(row, push.m - 1u);
    uint z = read_row / push.n;
    uint index = (push.z_first + z / push.groups) * push.pixels + push.column_first + read_row % push.n;
    Part pixel = pixel_part(index, z % push.groups * (push.image_channels / push.groups));
    uint top = 0u;
    for (uint i = first; i < end; i += THREADS) {
        vec4 v = load(pixel, i);
        ADD_TO_TOP(v)
    }
    JOIN_TOPS
    if (row >= push.m) return;

    int exponent = hlx_row_exponent(top, true);
    vec2 scale = hlx_scale(exponent);
    if (lane == 0u) exponents[at_piece] = exponent;
    for (uint i = first; i < end; i += THREADS) {
        ivec4 q = hlx_quantised4(load(pixel, i), exponent, scale);
        uint at = row * words + i;
        digits[at] = hlx_upper_digits(q);
        digits[push.m * words + at] = hlx_lower_digits(q);
    }
}
