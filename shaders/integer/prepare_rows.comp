// The rows of a matrix as integers: an exponent a piece of a row from its largest magnitude, and the digits of every number
// by it. x: matrices [matrix_rows, k]; digits: [planes, rows, words], four of 8 bits a word, zeros past k; exponents: [rows, pieces].
// Wide rows have two planes, the upper digits first. 32 threads have a piece of a row, and read it twice.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

// Integers of 16 bits in two digits, not of 8 in one.
layout(constant_id = 0) const bool WIDE = false;
// k and the stride are multiples of four.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint rows;
    uint k;
    uint words;  // of a row in a plane
    // Rows of a matrix, and the elements from one matrix to the next.
    uint matrix_rows;
    uint stride;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 0) readonly restrict buffer XVectors { vec4 x_vectors[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Exponents { int exponents[]; };

const uint ROWS = 8u;
const uint THREADS = 32u;
// Vectors of a thread that are loaded together.
const uint AHEAD = 4u;
// Words of a piece.
const uint PIECE = HLX_PIECE / 4u;

shared uint tops[ROWS][THREADS];

// Numbers 4 i .. 4 i + 3 of the row at `at`, zeros past its end.
vec4 load(uint at, uint i) {
    if (VECTORS) return 4u * i < push.k ? x_vectors[at / 4u + i] : vec4(0.0);
    vec4 v = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (4u * i + j < push.k) v[j] = x[at + 4u * i + j];
    return v;
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
    uint top = 0u;
    for (uint i = first; i < end; i += AHEAD * THREADS) {
        vec4 v[AHEAD];
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) v[j] = load(read_at, i + j * THREADS);
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j)
            [[unroll]] for (uint c = 0u; c < 4u; ++c) top = max(top, hlx_magnitude(v[j][c]));
    }
    tops[own][lane] = top;
    barrier();
    // The largest of integers: no order shows.
    for (uint i = 0u; i < THREADS; ++i) top = max(top, tops[own][i]);
    if (row >= push.rows) return;

    int exponent = hlx_row_exponent(top, WIDE);
    vec2 scale = hlx_scale(exponent);
    if (lane == 0u) exponents[at_piece] = exponent;
    for (uint i = first; i < end; i += AHEAD * THREADS) {
        vec4 v[AHEAD];
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) v[j] = load(read_at, i + j * THREADS);
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) {
            uint word = i + j * THREADS;
            uint at = row * push.words + word;
            ivec4 q = hlx_quantised4(v[j], exponent, scale);
            if (WIDE && word < end) {
                digits[at] = hlx_upper_digits(q);
                digits[push.rows * push.words + at] = hlx_lower_digits(q);
            } else if (word < end) {
                digits[at] = hlx_lower_digits(q);
            }
        }
    }
}
