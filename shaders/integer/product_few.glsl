// The product of prepared operands (finish.glsl) with few rows of a, for generation: 32 threads have two columns, whose rows of
// b they read from end to end, with up to four rows of a. A workgroup has 16 columns; those that read the same columns for other
// rows follow each other. The sums of a column's threads are
// added up in shared memory: no order shows. With DOTS by dot products of four bytes.
#include "finish.glsl"
#ifdef DOTS
#include "byte_dot.glsl"
#else
#include "plain_dot.glsl"
#endif

layout(local_size_x = 256) in;

const uint MOST_ROWS = 4u;
const uint OWN = 2u;
const uint LANES = 32u;
const uint COLUMNS = 256u / LANES * OWN;
// Sums of a thread: of each row and column the upper and the lower digits'.
const uint SUMS = MOST_ROWS * OWN * 2u;

shared int partial[SUMS * 256u];

void main() {
    DECLARE_PRODUCT(MOST_ROWS, COLUMNS)
    if (!locate(product, hlx_group() % down, hlx_group() / down % across, MOST_ROWS, COLUMNS)) return;
    uint n_rows = min(MOST_ROWS, tile.a_end - tile.a_first);
    uint lane = gl_LocalInvocationIndex % LANES;
    uint own_n = gl_LocalInvocationIndex / LANES * OWN;
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        int sums[SUMS];
        [[unroll]] for (uint i = 0u; i < SUMS; ++i) sums[i] = 0;
        uvec2 units = units_of(piece);
        for (uint unit = units.x + lane; unit < units.y; unit += LANES) {
            uvec4 of_b[OWN];
            [[unroll]] for (uint j = 0u; j < OWN; ++j) 
                of_b[j] = b[unit_of_b(row_of_b(own_n + j), unit)];
            [[unroll]] for (uint m = 0u; m < MOST_ROWS; ++m) {
                if (m < n_rows) {
                    uvec4 high = a[unit_of_a(tile.a_first + m, 0u, unit)];
                    uvec4 low = a[unit_of_a(tile.a_first + m, 1u, unit)];
                    [[unroll]] for (uint j = 0u; j < OWN; ++j) {
                        sums[2u * (OWN * m + j)] += dot_of(high, of_b[j]);
                        sums[2u * (OWN * m + j) + 1u] += dot_of(low, of_b[j]);
                    }
                }
            }
        }
        [[unroll]] for (uint m = 0u; m < MOST_ROWS; ++m)
            if (m < n_rows)
                [[unroll]] for (uint i = 0u; i < 2u * OWN; ++i)
                    partial[(2u * OWN * m + i) * 256u + gl_LocalInvocationIndex] = sums[2u * OWN * m + i];
        barrier();
        // A thread has a column of a row: of columns side by side, those of neighbouring groups of threads.
        uint row = gl_LocalInvocationIndex / COLUMNS;
        uint column = gl_LocalInvocationIndex % COLUMNS;
        if (row < n_rows && tile.b_first + column < tile.b_end) {
            uint first = 2u * (OWN * row + column % OWN) * 256u + column / OWN * LANES;
            int high = 0;
            int low = 0;
            for (uint i = 0u; i < LANES; ++i) {
                // (Each column begins elsewhere, so that threads side by side read different banks.)
                uint of_lane = (i + column) % LANES;
                high += partial[first + of_lane];
                low += partial[first + 256u + of_lane];
            }
            float sum = hlx_float_of_sums(high, low);
            vec2 of_a = hlx_factors(a_exponents[row_of_a(row) * pieces() + piece]);
            vec2 of_b = hlx_factors(b_exponents[row_of_b(column) * pieces() + piece]);
            finish_one(hlx_result_of_sum(sum, of_a, of_b), piece, row, column);
        }
        barrier();
    }
}
