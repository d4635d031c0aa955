// The product of prepared operands (finish.glsl) in plain integer arithmetic, for every device: 16 x 64 results a
// workgroup, four of neighbouring columns per thread.
#include "finish.glsl"
#include "plain_dot.glsl"

layout(local_size_x = 256) in;

const uint ROWS = 16u;
const uint COLUMNS = 64u;
// Units of a row that are in shared memory at a time.
const uint STEP = 2u;

// Rows of a's upper digits, of its lower ones, and of b; one unit of padding.
shared uvec4 staged[(2u * ROWS + COLUMNS) * (STEP + 1u)];

// Adds up the terms of a piece, of row own.y and the columns from own.x on of a workgroup's results.
void add_piece(uint piece, uvec2 own, inout ivec4 high, inout ivec4 low) {
    uvec2 units = units_of(piece);
    for (uint first = units.x; first < units.y; first += STEP) {
        for (uint at = gl_LocalInvocationIndex; at < (2u * ROWS + COLUMNS) * STEP; at += 256u) {
            uint line = at / STEP;
            uint unit = first + at % STEP;
            uint to = line * (STEP + 1u) + at % STEP;
            if (line < 2u * ROWS) staged[to] = a[unit_of_a(row_of_a(line % ROWS), line / ROWS, unit)];
            else staged[to] = b[unit_of_b(row_of_b(line - 2u * ROWS), unit)];
        }
        barrier();
        for (uint i = 0u; i < STEP; ++i) {
            uvec4 of_high = staged[own.y * (STEP + 1u) + i];
            uvec4 of_low = staged[(ROWS + own.y) * (STEP + 1u) + i];
            for (uint j = 0u; j < 4u; ++j) {
                uvec4 of_b = staged[(2u * ROWS + own.x + j) * (STEP + 1u) + i];
                high[j] += dot_of(of_high, of_b);
                low[j] += dot_of(of_low, of_b);
            }
        }
        barrier();
    }
}

void main() {
    DECLARE_PRODUCT(ROWS, COLUMNS)
    if (!locate(product, hlx_group() / across % down, hlx_group() % across, ROWS, COLUMNS)) return;
    uvec2 own = uvec2(gl_LocalInvocationIndex % 16u * 4u, gl_LocalInvocationIndex / 16u);
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        ivec4 high = ivec4(0);
        ivec4 low = ivec4(0);
        add_piece(piece, own, high, low);
        vec4 results;
        for (uint j = 0u; j < 4u; ++j) {
            vec2 of_a = hlx_factors(a_exponents[row_of_a(own.y) * pieces() + piece]);
            vec2 of_b = hlx_factors(b_exponents[row_of_b(own.x + j) * pieces() + piece]);
            results[j] = hlx_result_of_sum(hlx_float_of_sums(high[j], low[j]), of_a, of_b);
        }
        finish(results, piece, own.y, own.x);
    }
}
