// The operands of a weight's gradient as integers: row (z, r) has the elements of tap column_first + r (images.glsl) at the
// pixels of the samples of shard (z_first + z) / groups, in the planes of group (z_first + z) % groups. Their terms are cut
// into pieces (product/sources/patches/quantised/columns.rs): N of them from piece_first on, of sample_runs samples each, or with several runs a
// sample of one run's pixels; each is filled up to a multiple of 64 with zeros. The output's gradient has one tap a channel.
//
// digits: [planes, z_count, M, N, words of a piece]; exponents: [z_count, M, N]. 32 threads have a piece of a row, and read
// it twice.
#include "../include/integer.glsl"
#include "images.glsl"
#include "../integer/tops_of_rows.glsl"

// Integers of 16 bits in two digits, not of 8 in one.
layout(constant_id = 6) const bool WIDE = false;
// Pixels that count_pixels.comp has not counted are zeros.
layout(constant_id = 7) const bool COUNTED = false;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Counts { int counts[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Exponents { int exponents[]; };

// The first sample of a piece and the one behind the last, its first pixel, and its terms.
struct Piece {
    uint first_sample, end_sample, first_pixel, terms;
};

Piece piece_of(uint z, uint number) {
    uint first = (push.z_first + z) / push.groups * push.k;
    if (push.runs == 1u) {
        uint sample_idx = first + number * push.sample_runs;
        uint end = min(sample_idx + push.sample_runs, first + push.k);
        return Piece(sample_idx, end, 0u, (max(sample_idx, end) - sample_idx) * push.pixels);
    }
    uint length = (push.pixels + push.runs - 1u) / push.runs;
    uint sample_idx = first + number / push.runs;
    uint pixel = number % push.runs * length;
    return Piece(sample_idx, sample_idx + 1u, pixel, min(pixel + length, push.pixels) - min(pixel, push.pixels));
}

// Terms 4 i .. 4 i + 3 of a piece, zeros past its end.
vec4 load(Piece piece, uint group, Part tap, uint i) {
    vec4 v = vec4(0.0);
    uint first_plane = group * (push.image_channels / push.groups);
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint term = 4u * i + j;
        if (term >= piece.terms) continue;
        uint index = piece.first_sample * push.pixels + piece.first_pixel + term;
        uint sample_idx = DIVIDED(index, pixels);
        uint at_count = (sample_idx * push.groups + group) * push.pixels + (index - sample_idx * push.pixels);
        uint element;
        if (element_of(pixel_part(index, first_plane), tap, element) && (!COUNTED || counts[at_count] != 0))
            v[j] = x[element];
    }
    return v;
}

void main() {
    uint longest = push.runs == 1u ? push.sample_runs * push.pixels : (push.pixels + push.runs - 1u) / push.runs;
    uint words = (longest + 63u) / 64u * 16u;
    DECLARE_LANE
    uint at_piece = hlx_group() * ROWS + own;
    uint pieces = push.z_count * push.m * push.n;
    uint read_piece = min(at_piece, pieces - 1u);
    uint row = read_piece / push.n;
    uint z = row / push.m;
    Piece piece = piece_of(z, push.piece_first + read_piece % push.n);
    uint group = (push.z_first + z) % push.groups;
    Part tap = tap_part(push.column_first + row % push.m);
    uint top = 0u;
    for (uint i = lane; i < words; i += THREADS) {
        vec4 v = load(piece, group, tap, i);
        ADD_TO_TOP(v)
    }
    JOIN_TOPS
    if (at_piece >= pieces) return;

    int exponent = hlx_row_exponent(top, WIDE);
    vec2 scale = hlx_scale(exponent);
    if (lane == 0u) exponents[at_piece] = exponent;
    for (uint i = lane; i < words; i += THREADS) {
        ivec4 q = hlx_quantised4(load(piece, group, tap, i), exponent, scale);
        uint at = at_piece * words + i;
        digits[at] = WIDE ? hlx_upper_digits(q) : hlx_lower_digits(q);
        if (WIDE) digits[pieces * words + at] = hlx_lower_digits(q);
    }
}
