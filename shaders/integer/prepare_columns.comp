// The columns of matrices as integers, as prepare_rows.comp has rows: x: [outer, k, columns]; tops: the largest
// magnitudes, [outer columns, pieces] (column_tops.comp); digits: [planes, outer columns, words], zeros past k;
// exponents: [outer columns, pieces]. A workgroup has 128 rows of 32 columns, which turn in shared memory.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "columns.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const bool WIDE = false;

layout(set = 0, binding = 1) readonly restrict buffer Tops { uint tops[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Exponents { int exponents[]; };

const uint THREADS = 256u;
const uint ROWS = 128u;
const uint COLUMNS = 32u;
// Words of a column of the tile, and the rows that the threads read together.
const uint WORDS = ROWS / 4u;
const uint TALL = THREADS / (COLUMNS / 4u);
const uint STRIDE = ROWS + 1u;

shared int tile[COLUMNS * STRIDE];

void main() {
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint down = (push.words + WORDS - 1u) / WORDS;
    uint outer = hlx_group() / blocks / down;
    if (outer >= push.outer) return;
    uint first_row = hlx_group() / blocks % down * ROWS;
    uint first_column = hlx_group() % blocks * COLUMNS;
    uint piece = first_row / HLX_PIECE;
    uint own = 4u * (gl_LocalInvocationIndex % (COLUMNS / 4u));
    uint own_row = gl_LocalInvocationIndex / (COLUMNS / 4u);
    vec4 v[ROWS / TALL];
    [[unroll]] for (uint j = 0u; j < ROWS / TALL; ++j)
        v[j] = load(outer, first_row + own_row + j * TALL, first_column + own);
    [[unroll]] for (uint c = 0u; c < 4u; ++c) {
        uint column = first_column + own + c;
        uint at = (outer * push.columns + min(column, push.columns - 1u)) * pieces() + piece;
        int exponent = hlx_row_exponent(tops[at], WIDE);
        vec2 scale = hlx_scale(exponent);
        [[unroll]] for (uint j = 0u; j < ROWS / TALL; ++j)
            tile[(own + c) * STRIDE + own_row + j * TALL] = hlx_quantised(v[j][c], exponent, scale);
        if (first_row % HLX_PIECE == 0u && own_row == 0u && column < push.columns) exponents[at] = exponent;
    }
    barrier();
    [[unroll]] for (uint l = 0u; l < COLUMNS * WORDS / THREADS; ++l) {
        uint at = gl_LocalInvocationIndex + l * THREADS;
        uint column = at / WORDS;
        uint word = first_row / 4u + at % WORDS;
        if (first_column + column >= push.columns || word >= push.words) continue;
        ivec4 q;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) q[j] = tile[column * STRIDE + 4u * (at % WORDS) + j];
        uint to = (outer * push.columns + first_column + column) * push.words + word;
        if (WIDE) {
            digits[to] = hlx_upper_digits(q);
            digits[push.outer * push.columns * push.words + to] = hlx_lower_digits(q);
        } else {
            digits[to] = hlx_lower_digits(q);
        }
    }
}
