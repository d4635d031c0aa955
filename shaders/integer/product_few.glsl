// The product of prepared operands (finish.glsl) with few rows of a, for generation: 32 threads have two columns, whose rows of
// b they read from end to end, with up to four rows of a. A workgroup has 16 columns; those that read the same columns for other
// rows follow each other. The sums of a column's threads are added up in shared memory: no order shows. With DOTS by dot products
// of four bytes.
//
// With FRESH each workgroup makes the integers of its rows for itself (fresh_rows.glsl).
#include "finish.glsl"
#ifdef DOTS
#include "byte_dot.glsl"
#else
#include "plain_dot.glsl"
#endif

layout(local_size_x = 256) in;

// Rows of a that a workgroup has at most, up to four.
layout(constant_id = 10) const uint ROWS = 4;
// Units of a column that a thread has, which it loads at once; 0 where it loads one after the other.
layout(constant_id = 11) const uint HELD = 2;

const uint OWN = 2u;
const uint LANES = 32u;
const uint COLUMNS = 256u / LANES * OWN;
// Sums of a thread: of each row and column the upper and the lower digits'.
const uint SUMS = ROWS * OWN * 2u;
// Threads that add up the sums of a row and a column.
const uint PARTS = ROWS == 1u ? 8u : ROWS == 2u ? 4u : 2u;

shared int partial[SUMS * 256u];
shared int joined[256];

#include "fresh_rows.glsl"

// Adds the products of a unit of the thread's columns.
#define ADD_UNIT(unit, of_b)                                                                 \
    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {                                            \
        if (m < n_rows) {                                                                    \
            uvec4 high = A_UNIT(m, 0u, unit);                                                \
            uvec4 low = A_UNIT(m, 1u, unit);                                                 \
            [[unroll]] for (uint j = 0u; j < OWN; ++j) {                                     \
                sums[2u * (OWN * m + j)] += dot_of(high, of_b[j]);                           \
                sums[2u * (OWN * m + j) + 1u] += dot_of(low, of_b[j]);                       \
            }                                                                                \
        }                                                                                    \
    }

void main() {
    DECLARE_PRODUCT(ROWS, COLUMNS)
    if (!locate(product, hlx_group() % down, hlx_group() / down % across, ROWS, COLUMNS)) return;
    uint n_rows = min(ROWS, tile.a_end - tile.a_first);
    uint lane = gl_LocalInvocationIndex % LANES;
    uint own_n = gl_LocalInvocationIndex / LANES * OWN;
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        int sums[SUMS];
        [[unroll]] for (uint i = 0u; i < SUMS; ++i) sums[i] = 0;
        uvec2 units = units_of(piece);
        if (HELD > 0u) {
            uvec4 of_b[HELD + 1u][OWN];
            [[unroll]] for (uint h = 0u; h < HELD; ++h)
                [[unroll]] for (uint j = 0u; j < OWN; ++j)
                    of_b[h][j] = b[unit_of_b(row_of_b(own_n + j), min(units.x + lane + h * LANES, units.y - 1u))];
#ifdef FRESH
            prepare_rows();
#endif
            [[unroll]] for (uint h = 0u; h < HELD; ++h) {
                uint unit = units.x + lane + h * LANES;
                if (unit < units.y) { ADD_UNIT(unit, of_b[h]) }
            }
        } else {
#ifndef FRESH
            for (uint unit = units.x + lane; unit < units.y; unit += LANES) {
                uvec4 of_b[OWN];
                [[unroll]] for (uint j = 0u; j < OWN; ++j) of_b[j] = b[unit_of_b(row_of_b(own_n + j), unit)];
                ADD_UNIT(unit, of_b)
            }
#endif
        }
        [[unroll]] for (uint i = 0u; i < SUMS; ++i) partial[i * 256u + gl_LocalInvocationIndex] = sums[i];
        barrier();
        // Some threads share the sums of 32: of a row, a column and a digit.
        uint part = gl_LocalInvocationIndex % PARTS;
        uint of_sum = gl_LocalInvocationIndex / PARTS;
        if (of_sum < 2u * COLUMNS * ROWS) {
            uint column = of_sum / 2u % COLUMNS;
            uint kind = 2u * (OWN * (of_sum / 2u / COLUMNS) + column % OWN) + of_sum % 2u;
            uint first = kind * 256u + column / OWN * LANES + part;
            int sum = 0;
            // (Each sum begins elsewhere, so that threads side by side read different banks.)
            [[unroll]] for (uint i = 0u; i < LANES / PARTS; ++i)
                sum += partial[first + (i + of_sum) % (LANES / PARTS) * PARTS];
            joined[gl_LocalInvocationIndex] = sum;
        }
        barrier();
        uint row = gl_LocalInvocationIndex / COLUMNS;
        uint column = gl_LocalInvocationIndex % COLUMNS;
        if (row < n_rows && tile.b_first + column < tile.b_end) {
            int high = 0;
            int low = 0;
            [[unroll]] for (uint i = 0u; i < PARTS; ++i) {
                uint at = 2u * gl_LocalInvocationIndex * PARTS + (i + column / 2u) % PARTS;
                high += joined[at];
                low += joined[at + PARTS];
            }
            float sum = hlx_float_of_sums(high, low);
            vec2 of_a = hlx_factors(EXPONENT_OF_A(row, piece));
            vec2 of_b = hlx_factors(b_exponents[row_of_b(column) * pieces() + piece]);
            finish_one(hlx_result_of_sum(sum, of_a, of_b), piece, row, column);
        }
        barrier();
    }
}
