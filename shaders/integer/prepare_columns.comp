// The columns of matrices as integers, as prepare_rows.comp has rows: x: [outer, k, columns]; digits: [planes,
// outer columns, words], zeros past k; exponents: [outer columns, pieces]. A workgroup has a piece of WIDTH
// neighbouring columns of a matrix: it reads them for their largest magnitudes, and again, by tiles that turn in shared
// memory, for the digits.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const bool WIDE = false;
// Columns of a workgroup: 8, 16 or 32.
layout(constant_id = 1) const uint WIDTH = 32;

layout(push_constant) uniform Push {
    uint outer;
    uint k;
    uint columns;
    uint words;  // of a column in a plane
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Exponents { int exponents[]; };

const uint THREADS = 256u;
// Numbers of a column of a tile, and from column to column.
const uint STEP = 128u;
const uint STRIDE = STEP + 1u;
const uint AHEAD = 8u;
const uint PIECE = HLX_PIECE;
// Rows that the threads read together.
const uint TALL = THREADS / WIDTH;

shared uint tops[THREADS];
shared int own_exponents[32];
shared float tile[32u * STRIDE];

void main() {
    uint blocks = (push.columns + WIDTH - 1u) / WIDTH;
    uint pieces = max((push.words + PIECE / 4u - 1u) / (PIECE / 4u), 1u);
    uint outer = hlx_group() / blocks / pieces;
    if (outer >= push.outer) return;
    uint first_column = hlx_group() / pieces % blocks * WIDTH;
    uint piece = hlx_group() % pieces;
    uint begin = piece * PIECE;
    uint end = min(begin + PIECE, push.k);
    uint thread = gl_LocalInvocationIndex;
    uint column = thread % WIDTH;
    uint from = outer * push.k * push.columns + min(first_column + column, push.columns - 1u);

    uint top = 0u;
    for (uint i = begin + thread / WIDTH; i < end; i += AHEAD * TALL) {
        float v[AHEAD];
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) v[j] = x[from + min(i + j * TALL, end - 1u) * push.columns];
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) top = max(top, hlx_magnitude(v[j]));
    }
    tops[thread] = top;
    barrier();
    if (thread < WIDTH) {
        // The largest of integers: no order shows.
        for (uint i = thread; i < THREADS; i += WIDTH) top = max(top, tops[i]);
        own_exponents[thread] = hlx_row_exponent(top, WIDE);
        uint at = outer * push.columns + first_column + thread;
        if (first_column + thread < push.columns) exponents[at * pieces + piece] = own_exponents[thread];
    }
    barrier();

    for (uint first = begin; first < min(begin + PIECE, 4u * push.words); first += STEP) {
        for (uint i = thread / WIDTH; i < STEP; i += AHEAD * TALL) {
            float v[AHEAD];
            [[unroll]] for (uint j = 0u; j < AHEAD; ++j)
                v[j] = x[from + min(first + i + j * TALL, push.k - 1u) * push.columns];
            [[unroll]] for (uint j = 0u; j < AHEAD; ++j)
                if (i + j * TALL < STEP) tile[column * STRIDE + i + j * TALL] = first + i + j * TALL < push.k ? v[j] : 0.0;
        }
        barrier();
        for (uint at = thread; at < WIDTH * STEP / 4u; at += THREADS) {
            uint own = at / (STEP / 4u);
            uint word = first / 4u + at % (STEP / 4u);
            if (first_column + own >= push.columns || word >= push.words) continue;
            int exponent = own_exponents[own];
            vec4 v;
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = tile[own * STRIDE + 4u * (at % (STEP / 4u)) + j];
            bool zero = exponent == HLX_NO_EXPONENT;
            uint to = (outer * push.columns + first_column + own) * push.words + word;
            if (WIDE) {
                digits[to] = zero ? 0u : hlx_upper_digits(v, exponent);
                digits[push.outer * push.columns * push.words + to] = zero ? 0u : hlx_lower_digits(v, exponent);
            } else {
                digits[to] = zero ? 0u : hlx_lower_digits(v, exponent);
            }
        }
        barrier();
    }
}
