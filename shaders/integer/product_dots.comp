// The product of prepared operands (finish.glsl) by dot products of four bytes: 64 x 64 results a workgroup, 4 x 4 a thread,
// whose columns are neighbours.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "finish.glsl"
#include "byte_dot.glsl"

layout(local_size_x = 256) in;

const uint SIDE = 64u;
// Of a thread.
const uint OWN = 4u;
const uint ACROSS = SIDE / OWN;
// Units of a row that are in shared memory at a time, and from row to row.
const uint STEP = 2u;
const uint STRIDE = STEP + 1u;
const uint LINES = 3u * SIDE;

// Rows of a's upper digits, of its lower ones, and of b, whose columns 4 x + j lie 16 apart, so that threads side by side read
// neighbouring rows.
shared uvec4 tile[LINES * STRIDE];

void main() {
    uint across = (push.n + SIDE - 1u) / SIDE;
    uint down = (push.m + SIDE - 1u) / SIDE;
    uint product = hlx_group() / (across * down);
    if (product >= push.batch) return;
    uint first_m = hlx_group() / across % down * SIDE;
    uint first_n = hlx_group() % across * SIDE;
    uint own_m = gl_LocalInvocationIndex / ACROSS;
    uint own_n = gl_LocalInvocationIndex % ACROSS;
    for (uint piece = 0u; piece < pieces(); ++piece) {
        int high[OWN * OWN];
        int low[OWN * OWN];
        [[unroll]] for (uint i = 0u; i < OWN * OWN; ++i) {
            high[i] = 0;
            low[i] = 0;
        }
        uint end = min((piece + 1u) * PIECE, push.units);
        [[dont_unroll]] for (uint first = piece * PIECE; first < end; first += STEP) {
            for (uint at = gl_LocalInvocationIndex; at < LINES * STEP; at += 256u) {
                uint line = at / STEP;
                uint unit = first + at % STEP;
                if (line < 2u * SIDE) {
                    uint row = product * push.m + min(first_m + line % SIDE, push.m - 1u);
                    tile[line * STRIDE + at % STEP] = a[(line / SIDE * push.batch * push.m + row) * push.units + unit];
                } else {
                    uint own = line % SIDE;
                    uint column = product * push.n + min(first_n + own, push.n - 1u);
                    uint to = 2u * SIDE + own % OWN * ACROSS + own / OWN;
                    tile[to * STRIDE + at % STEP] = b[column * push.units + unit];
                }
            }
            barrier();
            [[dont_unroll]] for (uint i = 0u; i < STEP; ++i) {
                uvec4 of_b[OWN];
                [[unroll]] for (uint n = 0u; n < OWN; ++n)
                    of_b[n] = tile[(2u * SIDE + n * ACROSS + own_n) * STRIDE + i];
                [[unroll]] for (uint m = 0u; m < OWN; ++m) {
                    uvec4 of_high = tile[(OWN * own_m + m) * STRIDE + i];
                    uvec4 of_low = tile[(SIDE + OWN * own_m + m) * STRIDE + i];
                    [[unroll]] for (uint n = 0u; n < OWN; ++n) {
                        high[m * OWN + n] += dot_of(of_high, of_b[n]);
                        low[m * OWN + n] += dot_of(of_low, of_b[n]);
                    }
                }
            }
            barrier();
        }
        vec2 of_columns[OWN];
        [[unroll]] for (uint n = 0u; n < OWN; ++n) {
            uint column = product * push.n + min(first_n + OWN * own_n + n, push.n - 1u);
            of_columns[n] = hlx_factors(b_exponents[column * pieces() + piece]);
        }
        [[unroll]] for (uint m = 0u; m < OWN; ++m) {
            uint row = first_m + OWN * own_m + m;
            vec2 of_row = hlx_factors(a_exponents[(product * push.m + min(row, push.m - 1u)) * pieces() + piece]);
            vec4 results;
            [[unroll]] for (uint n = 0u; n < OWN; ++n) {
                float sum = hlx_float_of_sums(high[m * OWN + n], low[m * OWN + n]);
                results[n] = hlx_result_of_sum(sum, of_row, of_columns[n]);
            }
            finish(results, piece, product, row, first_n + OWN * own_n);
        }
    }
}
