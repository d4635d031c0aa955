// The product of prepared operands (finish.glsl) by dot products of four bytes: 64 x 64 results per workgroup, 4 x 4 per thread,
// whose columns are neighbours.
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
shared uvec4 staged[LINES * STRIDE];

void main() {
    DECLARE_PRODUCT(SIDE, SIDE)
    if (!locate(product, hlx_group() / across % down, hlx_group() % across, SIDE, SIDE)) return;
    uint own_m = gl_LocalInvocationIndex / ACROSS;
    uint own_n = gl_LocalInvocationIndex % ACROSS;
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        int high[OWN * OWN];
        int low[OWN * OWN];
        [[unroll]] for (uint i = 0u; i < OWN * OWN; ++i) {
            high[i] = 0;
            low[i] = 0;
        }
        uvec2 units = units_of(piece);
        [[dont_unroll]] for (uint first = units.x; first < units.y; first += STEP) {
            for (uint at = gl_LocalInvocationIndex; at < LINES * STEP; at += 256u) {
                uint line = at / STEP;
                uint unit = first + at % STEP;
                uint own = line % SIDE;
                if (line < 2u * SIDE) {
                    staged[line * STRIDE + at % STEP] = a[unit_of_a(row_of_a(own), line / SIDE, unit)];
                } else {
                    uint to = 2u * SIDE + own % OWN * ACROSS + own / OWN;
                    staged[to * STRIDE + at % STEP] = b[unit_of_b(row_of_b(own), unit)];
                }
            }
            barrier();
            [[dont_unroll]] for (uint i = 0u; i < STEP; ++i) {
                uvec4 of_b[OWN];
                [[unroll]] for (uint n = 0u; n < OWN; ++n)
                    of_b[n] = staged[(2u * SIDE + n * ACROSS + own_n) * STRIDE + i];
                [[unroll]] for (uint m = 0u; m < OWN; ++m) {
                    uvec4 of_high = staged[(OWN * own_m + m) * STRIDE + i];
                    uvec4 of_low = staged[(SIDE + OWN * own_m + m) * STRIDE + i];
                    [[unroll]] for (uint n = 0u; n < OWN; ++n) {
                        high[m * OWN + n] += dot_of(of_high, of_b[n]);
                        low[m * OWN + n] += dot_of(of_low, of_b[n]);
                    }
                }
            }
            barrier();
        }
        vec2 of_columns[OWN];
        [[unroll]] for (uint n = 0u; n < OWN; ++n)
            of_columns[n] = hlx_factors(b_exponents[row_of_b(OWN * own_n + n) * pieces() + piece]);
        [[unroll]] for (uint m = 0u; m < OWN; ++m) {
            vec2 of_row = hlx_factors(a_exponents[row_of_a(OWN * own_m + m) * pieces() + piece]);
            vec4 results;
            [[unroll]] for (uint n = 0u; n < OWN; ++n) {
                float sum = hlx_float_of_sums(high[m * OWN + n], low[m * OWN + n]);
                results[n] = hlx_result_of_sum(sum, of_row, of_columns[n]);
            }
            finish(results, piece, OWN * own_m + m, OWN * own_n);
        }
    }
}
