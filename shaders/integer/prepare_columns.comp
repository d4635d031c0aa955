// The columns of matrices as integers, as prepare_rows.comp has rows: x: [outer, k, columns]; digits: [planes,
// outer columns, words], zeros past k; exponents: [outer columns, pieces]. A workgroup has a piece of WIDTH
// neighbouring columns of a matrix. It finds their largest magnitudes, and turns the digits in shared memory, eight
// numbers a thread at a time. A piece of up to HELD numbers a thread is read once and waits in registers; a longer one
// is read twice.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const bool WIDE = false;
// Columns of a workgroup: 8, 16 or 32.
layout(constant_id = 1) const uint WIDTH = 32;
// A multiple of 8; 8 for none.
layout(constant_id = 2) const uint HELD = 8;

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
const uint AHEAD = 8u;
// Rows that the threads have together, and those that are turned at a time.
const uint TALL = THREADS / WIDTH;
const uint STEP = AHEAD * TALL;
// From column to column of the tile.
const uint STRIDE = STEP + 1u;
const uint PIECE = HLX_PIECE;
const bool HOLDS = HELD > AHEAD;

shared uint tops[THREADS];
shared int own_exponents[32];
shared int tile[THREADS * AHEAD + 32u];

// Eight of a thread's numbers from row `first` on, zeros past the end.
#define LOAD(to, from_j, first)                                                            \
    [[unroll]] for (uint j = 0u; j < AHEAD; ++j) {                                          \
        uint row = (first) + j * TALL + thread / WIDTH;                                     \
        float v = x[from + min(row, end - 1u) * push.columns];                              \
        to[(from_j) + j] = row < end ? v : 0.0;                                             \
    }

// The digits of the rows from `first` on, of numbers from `from_j` on.
#define TURN(numbers, from_j, first)                                                       \
    [[unroll]] for (uint j = 0u; j < AHEAD; ++j)                                            \
        tile[column * STRIDE + j * TALL + thread / WIDTH] =                                 \
            is_finite ? hlx_quantised(numbers[(from_j) + j], exponent) : 0;                 \
    barrier();                                                                              \
    store((first) / 4u, outer, first_column);                                               \
    barrier();

void store(uint first_word, uint outer, uint first_column) {
    [[unroll]] for (uint l = 0u; l < WIDTH * STEP / 4u / THREADS; ++l) {
        uint at = gl_LocalInvocationIndex + l * THREADS;
        uint own = at / (STEP / 4u);
        uint word = first_word + at % (STEP / 4u);
        if (first_column + own >= push.columns || word >= push.words) continue;
        uint low = 0u;
        uint high = 0u;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            int q = tile[own * STRIDE + 4u * (at % (STEP / 4u)) + j];
            low |= (uint(q) & 255u) << (8u * j);
            high |= (uint((q + 128) >> 8) & 255u) << (8u * j);
        }
        uint to = (outer * push.columns + first_column + own) * push.words + word;
        digits[to] = WIDE ? high : low;
        if (WIDE) digits[push.outer * push.columns * push.words + to] = low;
    }
}

void main() {
    uint blocks = (push.columns + WIDTH - 1u) / WIDTH;
    uint pieces = max((push.words + PIECE / 4u - 1u) / (PIECE / 4u), 1u);
    uint outer = hlx_group() / blocks / pieces;
    if (outer >= push.outer) return;
    uint first_column = hlx_group() / pieces % blocks * WIDTH;
    uint piece = hlx_group() % pieces;
    uint begin = piece * PIECE;
    uint end = min(begin + PIECE, push.k);
    uint padded_end = min(begin + PIECE, 4u * push.words);
    uint thread = gl_LocalInvocationIndex;
    uint column = thread % WIDTH;
    uint from = outer * push.k * push.columns + min(first_column + column, push.columns - 1u);

    float held[HELD];
    uint top = 0u;
    if (HOLDS) {
        [[unroll]] for (uint i = 0u; i < HELD; i += AHEAD) {
            [[unroll]] for (uint j = 0u; j < AHEAD; ++j) held[i + j] = 0.0;
            if (begin + i * TALL < end) { LOAD(held, i, begin + i * TALL) }
        }
        [[unroll]] for (uint i = 0u; i < HELD; ++i) top = max(top, hlx_magnitude(held[i]));
    } else {
        [[dont_unroll]] for (uint first = begin; first < end; first += STEP) {
            float numbers[AHEAD];
            LOAD(numbers, 0u, first)
            [[unroll]] for (uint j = 0u; j < AHEAD; ++j) top = max(top, hlx_magnitude(numbers[j]));
        }
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

    int exponent = own_exponents[column];
    bool is_finite = exponent != HLX_NO_EXPONENT;
    if (HOLDS) {
        [[unroll]] for (uint i = 0u; i < HELD; i += AHEAD)
            if (begin + i * TALL < padded_end) { TURN(held, i, begin + i * TALL) }
    } else {
        [[dont_unroll]] for (uint first = begin; first < padded_end; first += STEP) {
            float numbers[AHEAD];
            LOAD(numbers, 0u, first)
            TURN(numbers, 0u, first)
        }
    }
}
