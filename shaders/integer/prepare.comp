// The rows of a matrix as integers: an exponent a row from its largest magnitude, and the digits of every number
// by it. x: element (r, i) at r row_stride + i k_stride; digits: [planes, rows, words], four of 8 bits a word,
// zeros past k; exponents: [rows]. Wide rows have two planes, the upper digits first. 32 threads have a row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

// Integers of 16 bits in two digits, not of 8 in one.
layout(constant_id = 0) const bool WIDE = false;

layout(push_constant) uniform Push {
    uint rows;
    uint k;
    uint words;  // of a row in a plane
    uint row_stride;
    uint k_stride;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Exponents { int exponents[]; };

const uint ROWS = 8u;
const uint THREADS = 32u;

shared uint tops[ROWS][THREADS];

void main() {
    uint own = gl_LocalInvocationID.x / THREADS;
    uint lane = gl_LocalInvocationID.x % THREADS;
    uint row = hlx_group() * ROWS + own;
    uint first = row * push.row_stride;
    uint top = 0u;
    if (row < push.rows)
        for (uint i = lane; i < push.k; i += THREADS)
            top = max(top, hlx_magnitude(x[first + i * push.k_stride]));
    tops[own][lane] = top;
    barrier();
    // The largest of integers: no order shows.
    for (uint i = 0u; i < THREADS; ++i) top = max(top, tops[own][i]);
    if (row >= push.rows) return;

    int exponent = hlx_row_exponent(top, WIDE);
    if (lane == 0u) exponents[row] = exponent;
    for (uint word = lane; word < push.words; word += THREADS) {
        uint low = 0u;
        uint high = 0u;
        for (uint j = 0u; j < 4u; ++j) {
            uint i = 4u * word + j;
            if (i < push.k && exponent != HLX_NO_EXPONENT) {
                int q = hlx_quantised(x[first + i * push.k_stride], exponent);
                low |= (uint(q) & 255u) << (8u * j);
                high |= (uint((q + 128) >> 8) & 255u) << (8u * j);
            }
        }
        uint at = row * push.words + word;
        if (WIDE) {
            digits[at] = high;
            digits[push.rows * push.words + at] = low;
        } else {
            digits[at] = low;
        }
    }
}
