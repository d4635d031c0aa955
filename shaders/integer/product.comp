// The product of prepared operands (finish.glsl) in plain integer arithmetic, for every device: 16 x 64 results a
// workgroup, four of neighbouring columns a thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "finish.glsl"
#include "plain_dot.glsl"

layout(local_size_x = 256) in;

const uint ROWS = 16u;
const uint COLUMNS = 64u;
// Units of a row that are in shared memory at a time.
const uint STEP = 2u;

// Rows of a's upper digits, of its lower ones, and of b; one unit of padding.
shared uvec4 tile[(2u * ROWS + COLUMNS) * (STEP + 1u)];

// Adds up the terms of a piece, of row y and the columns from x on of a workgroup's results.
void add_piece(uint piece, uint product, uvec2 first_at, uvec2 own, inout ivec4 high, inout ivec4 low) {
    uint end = min((piece + 1u) * PIECE, push.units);
    for (uint first = piece * PIECE; first < end; first += STEP) {
        for (uint at = gl_LocalInvocationIndex; at < (2u * ROWS + COLUMNS) * STEP; at += 256u) {
            uint line = at / STEP;
            uint unit = first + at % STEP;
            if (line < 2u * ROWS) {
                uint row = product * push.m + min(first_at.y + line % ROWS, push.m - 1u);
                tile[line * (STEP + 1u) + at % STEP] = a[(line / ROWS * push.batch * push.m + row) * push.units + unit];
            } else {
                uint column = product * push.n + min(first_at.x + line - 2u * ROWS, push.n - 1u);
                tile[line * (STEP + 1u) + at % STEP] = b[column * push.units + unit];
            }
        }
        barrier();
        for (uint i = 0u; i < STEP; ++i) {
            uvec4 of_high = tile[own.y * (STEP + 1u) + i];
            uvec4 of_low = tile[(ROWS + own.y) * (STEP + 1u) + i];
            for (uint j = 0u; j < 4u; ++j) {
                uvec4 of_b = tile[(2u * ROWS + own.x + j) * (STEP + 1u) + i];
                high[j] += dot_of(of_high, of_b);
                low[j] += dot_of(of_low, of_b);
            }
        }
        barrier();
    }
}

void main() {
    uint across = (push.n + COLUMNS - 1u) / COLUMNS;
    uint down = (push.m + ROWS - 1u) / ROWS;
    uint product = hlx_group() / (across * down);
    if (product >= push.batch) return;
    uvec2 first = uvec2(hlx_group() % across * COLUMNS, hlx_group() / across % down * ROWS);
    uvec2 own = uvec2(gl_LocalInvocationIndex % 16u * 4u, gl_LocalInvocationIndex / 16u);
    uint row = product * push.m + min(first.y + own.y, push.m - 1u);
    for (uint piece = 0u; piece < pieces(); ++piece) {
        ivec4 high = ivec4(0);
        ivec4 low = ivec4(0);
        add_piece(piece, product, first, own, high, low);
        vec4 results;
        for (uint j = 0u; j < 4u; ++j) {
            uint column = product * push.n + min(first.x + own.x + j, push.n - 1u);
            vec2 of_a = hlx_factors(a_exponents[row * pieces() + piece]);
            vec2 of_b = hlx_factors(b_exponents[column * pieces() + piece]);
            results[j] = hlx_result_of_sum(hlx_float_of_sums(high[j], low[j]), of_a, of_b);
        }
        finish(results, piece, product, first.y + own.y, first.x + own.x);
    }
}
