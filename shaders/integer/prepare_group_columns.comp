// The columns of groups of a matrix's rows as integers (groups.glsl), transposed into rows of digits: digits: [planes, columns,
// words], zeros where a group has no row; exponents: [columns, groups], by the largest magnitudes (group_tops.comp). A
// workgroup has 128 digits of 32 columns.
#include "groups.glsl"

layout(local_size_x = 256) in;

#include "transposed_tile.glsl"

layout(set = 0, binding = 2) readonly restrict buffer Tops { uint tops[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Exponents { int exponents[]; };

DEFINE_GROUP_OF(group_of, digit, digit_of)

void main() {
    uint blocks = (push.columns + COLUMNS - 1u) / COLUMNS;
    uint first_word = hlx_group() / blocks * WORDS;
    if (first_word >= push.words) return;
    uint first_column = hlx_group() % blocks * COLUMNS;
    DECLARE_OWN
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
        KEEP_DIGITS(q, c)
        if (digit == digit_of(group) && column < push.columns) exponents[at] = exponent;
    }
    barrier();
    STORE_TILE(push.columns, column, first_word, false)
}
