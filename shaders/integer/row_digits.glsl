// The rows of a matrix as integers: an exponent per piece of a row from its largest magnitude, and the digits of every number
// by it. x: matrices [matrix_rows, k]; digits: rows of words in planes, four of 8 bits per word, zeros past k; exponents: [rows, pieces].
// Wide rows have two planes, the upper digits first. A piece's threads hold it until they know its largest magnitude.
// What the numbers are computed from, if not themselves, is said by source.glsl.
#include "../include/integer.glsl"
#define SOURCE_BINDING 3
#include "source.glsl"

layout(local_size_x = 256) in;

// Integers of 16 bits in two digits, not of 8 in one.
layout(constant_id = 0) const bool WIDE = false;
// k and the stride are multiples of four.
layout(constant_id = 1) const bool VECTORS = false;

// Where the digits lie (include/integer.glsl).
layout(constant_id = 15) const bool IN_PIECES = false;

layout(push_constant) uniform Push {
    uint rows, k;
    uint words;  // of a row in a plane
    // Rows of a matrix, and the elements from one matrix to the next.
    uint matrix_rows, stride;
} push;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Exponents { int exponents[]; };

// Threads of a piece of a row, and vectors that each of them holds.
layout(constant_id = 2) const uint THREADS = 32;
layout(constant_id = 3) const uint HELD = 8;

// Of a workgroup.
const uint ROWS = 256u / THREADS;
// Words of a piece.
const uint PIECE = HLX_PIECE / 4u;

shared uint tops[ROWS];

// Numbers 4 i .. 4 i + 3 of a row, which lies at `at`, zeros past its end.
vec4 load(uint row, uint at, uint i) {
    vec4 v = vec4(0.0);
    if (VECTORS) {
        if (4u * i < push.k) v = x_vectors[at / 4u + i];
    } else {
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (4u * i + j < push.k) v[j] = x[at + 4u * i + j];
    }
    return of_source4(v, row, 4u * i, push.k, at + 4u * i);
}

void main() {
    uint own = gl_LocalInvocationID.x / THREADS;
    uint lane = gl_LocalInvocationID.x % THREADS;
    uint pieces = max((push.words + PIECE - 1u) / PIECE, 1u);
    uint at_piece = hlx_group() * ROWS + own;
    uint row = at_piece / pieces;
    uint first = at_piece % pieces * PIECE + lane;
    uint end = min((at_piece % pieces + 1u) * PIECE, push.words);
    uint read_row = min(row, push.rows - 1u);
    uint read_at = read_row / push.matrix_rows * push.stride + read_row % push.matrix_rows * push.k;
    if (lane == 0u) tops[own] = 0u;
    vec4 v[HELD];
    uint top = 0u;
    [[unroll]] for (uint j = 0u; j < HELD; ++j) {
        v[j] = first + j * THREADS < end ? load(read_row, read_at, first + j * THREADS) : vec4(0.0);
        [[unroll]] for (uint c = 0u; c < 4u; ++c) top = max(top, hlx_magnitude(v[j][c]));
    }
    barrier();
    // The largest of integers: no order shows.
    atomicMax(tops[own], top);
    barrier();
    if (row >= push.rows) return;

    int exponent = hlx_row_exponent(tops[own], WIDE);
    vec2 scale = hlx_scale(exponent);
    if (lane == 0u) exponents[at_piece] = exponent;
    [[unroll]] for (uint j = 0u; j < HELD; ++j) {
        uint word = first + j * THREADS;
        if (word >= end) break;
        uint at = hlx_word_at(row, word, WIDE ? 2u : 1u, push.rows, push.words, IN_PIECES);
        ivec4 q = hlx_quantised4(v[j], exponent, scale);
        HLX_STORE_DIGITS(digits, at, hlx_plane(push.rows, push.words, IN_PIECES), q, WIDE)
    }
}
