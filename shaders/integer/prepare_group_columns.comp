// The columns of groups of a matrix's rows as integers (groups.glsl), turned into rows of digits: digits: [planes, columns,
// words], zeros where a group has no row; exponents: [columns, groups], by the largest magnitudes (group_tops.comp). A
// workgroup has 128 digits of 32 columns, which turn in shared memory.
#include "groups.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const bool WIDE = false;

layout(set = 0, binding = 2) readonly restrict buffer Tops { uint tops[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Exponents { int exponents[]; };

const uint COLUMNS = 32u;
// Words of a column of the tile: a thread has one of four columns.
const uint WORDS = 32u;
const uint STRIDE = WORDS + 1u;
const uint PLANES = WIDE ? 2u : 1u;

shared uint tile[2u * COLUMNS * STRIDE];

DEFINE_GROUP_OF(group_of, digit, digit_of)

void main() {
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint first_word = hlx_group() / blocks * WORDS;
    if (first_word >= push.words) return;
    uint first_column = hlx_group() % blocks * COLUMNS;
    uint own = 4u * (gl_LocalInvocationIndex % (COLUMNS / 4u));
    uint own_word = gl_LocalInvocationIndex / (COLUMNS / 4u);
    uint digit = 4u * (first_word + own_word);
    uint group = group_of(digit);
    uint row = row_of(group) + (digit - digit_of(group));
    vec4 v[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        v[j] = vec4(0.0);
        if (row + j < row_of(group + 1u)) v[j] = load(row + j, first_column + own);
    }
    [[unroll]] for (uint c = 0u; c < 4u; ++c) {
        uint column = first_column + own + c;
        uint at = at_top(min(column, push.columns - 1u), group);
        int exponent = hlx_row_exponent(tops[at], WIDE);
        ivec4 q = hlx_quantised4(vec4(v[0][c], v[1][c], v[2][c], v[3][c]), exponent, hlx_scale(exponent));
        uint to = (own + c) * STRIDE + own_word;
        tile[to] = WIDE ? hlx_upper_digits(q) : hlx_lower_digits(q);
        if (WIDE) tile[COLUMNS * STRIDE + to] = hlx_lower_digits(q);
        if (digit == digit_of(group) && column < push.columns) exponents[at] = exponent;
    }
    barrier();
    [[unroll]] for (uint l = 0u; l < PLANES * COLUMNS * WORDS / 256u; ++l) {
        uint at = gl_LocalInvocationIndex + l * 256u;
        uint line = at / WORDS;
        uint column = first_column + line % COLUMNS;
        uint word = first_word + at % WORDS;
        uint plane = line / COLUMNS * push.columns * push.words;
        if (column < push.columns && word < push.words)
            digits[plane + column * push.words + word] = tile[line * STRIDE + at % WORDS];
    }
}
