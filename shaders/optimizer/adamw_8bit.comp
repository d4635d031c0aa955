// AdamW (adam.comp) whose moments are bytes in blocks of 256 elements (eight_bit.glsl), or f32 in blocks of a small
// parameter. A workgroup has a block, a thread four of its elements, whose bytes are one word. A block's entry in the
// table: its first parameter; its elements less 1, plus 256 if its moments are bytes, plus 512 times its row of
// numbers; and the first word of its moments. A negative clip factor skips the step: nothing is written.
#include "../include/math.glsl"
#define HLX_MORE_PUSH uint first_block, params_base, state_base;
#include "hyper.glsl"
#include "eight_bit.glsl"

layout(local_size_x = 64) in;

HLX_VIEWS(0, readonly restrict, float, Gradient, g)
HLX_VIEWS(4, restrict, float, Parameter, p)
layout(set = 0, binding = 5) restrict buffer First { uint first[]; };
layout(set = 0, binding = 6) restrict buffer Second { uint second[]; };

shared uint largest_first[64];
shared uint largest_second[64];

// One element of AdamW, as in adam.comp.
void advance(uint at, float gradient, inout float p, inout float m, inout float v) {
    precise float g = clipped(at, gradient);
    p = hlx_mul(KEEP, p);
    m = hlx_fma(ONE_MINUS_BETA1, hlx_sub(g, m), m);
    v = hlx_fma(hlx_mul(ONE_MINUS_BETA2, g), g, hlx_mul(BETA2, v));
    precise float denominator = hlx_fma(hlx_sqrt(v), INVERSE_ROOT, EPSILON);
    p = hlx_fma(NEGATIVE_STEP, hlx_div(m, denominator), p);
}

void main() {
    if (clip[0] < 0.0) return;
    uint group = hlx_group();
    if (group >= push.count) return;
    uint entry = 3u * (push.first_block + group);
    uint start = groups[entry] - push.params_base;
    uint kind = groups[entry + 1u];
    uint state = groups[entry + 2u] - push.state_base;
    uint n = (kind & 255u) + 1u;
    bool is_packed = (kind & 256u) != 0u;
    uint at = HYPER_LEN * min(kind >> 9, push.rows - 1u);

    uint t = gl_LocalInvocationID.x;
    uint element = 4u * t;
    uint mine = element < n ? min(n - element, 4u) : 0u;
    precise float m[4];
    precise float v[4];
    uint top_first = 0u;
    uint top_second = 0u;
    uint first_word = 0u;
    uint second_word = 0u;
    precise float first_scale = 0.0;
    precise float second_scale = 0.0;
    if (is_packed && mine != 0u) {
        first_scale = uintBitsToFloat(first[state]);
        second_scale = uintBitsToFloat(second[state]);
        first_word = first[state + 1u + t];
        second_word = second[state + 1u + t];
    }
    for (uint j = 0u; j < mine; ++j) {
        if (is_packed) {
            m[j] = first_moment((first_word >> (8u * j)) & 255u, first_scale);
            v[j] = second_moment((second_word >> (8u * j)) & 255u, second_scale);
        } else {
            m[j] = uintBitsToFloat(first[state + element + j]);
            v[j] = uintBitsToFloat(second[state + element + j]);
        }
        precise float p = p1[start + element + j];
        advance(at, g1[start + element + j], p, m[j], v[j]);
        p1[start + element + j] = p;
        top_first = max(top_first, floatBitsToUint(m[j]) & HLX_MAGNITUDE);
        top_second = max(top_second, floatBitsToUint(v[j]) & HLX_MAGNITUDE);
        if (!is_packed) {
            first[state + element + j] = floatBitsToUint(m[j]);
            second[state + element + j] = floatBitsToUint(v[j]);
        }
    }
    if (!is_packed) return;

    largest_first[t] = top_first;
    largest_second[t] = top_second;
    barrier();
    for (uint half_width = 32u; half_width != 0u; half_width >>= 1) {
        if (t < half_width) {
            largest_first[t] = max(largest_first[t], largest_first[t + half_width]);
            largest_second[t] = max(largest_second[t], largest_second[t + half_width]);
        }
        barrier();
    }
    uint first_bits = eight_bit_scale(largest_first[0]);
    uint second_bits = eight_bit_scale(largest_second[0]);
    bool has_first = first_bits != 0u && first_bits != HLX_NAN;
    bool has_second = second_bits != 0u && second_bits != HLX_NAN;
    first_word = 0u;
    second_word = 0u;
    for (uint j = 0u; j < mine; ++j) {
        if (has_first) first_word |= first_byte(m[j], uintBitsToFloat(first_bits)) << (8u * j);
        if (has_second) second_word |= second_byte(v[j], uintBitsToFloat(second_bits)) << (8u * j);
    }
    if (mine != 0u) {
        first[state + 1u + t] = first_word;
        second[state + 1u + t] = second_word;
    }
    if (t == 0u) {
        first[state] = first_bits;
        second[state] = second_bits;
    }
}
