// Sum, product, sum of squares, maximum, minimum, any and all over any axes of x: one pass of
// pieces.glsl. result [items] holds results, or totals for the next pass.
//
// Maxima and minima go by the keys of order_key.glsl, those of a minimum with all bits flipped: a
// NaN among the terms gives NaN, and a zero of either sign +0. `any` is the maximum of "is not
// zero", and `all` is 1 minus the maximum of "is zero". A float sum of zero is +0.
#define STATE uint
#include "pieces.glsl"

layout(constant_id = 8) const uint JOIN = 0u;     // 0 float add, 1 float mul, 2 add, 3 mul, 4 max
layout(constant_id = 9) const uint TERM = 0u;     // 0 as is, 1 square, 2 key, 3 is not 0, 4 is 0
layout(constant_id = 10) const uint RESULT = 0u;  // 0 as is, 1 of a key, 2 not
layout(constant_id = 11) const uint FLIP = 0u;    // all bits for a minimum

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Result { uint result[]; };

uint nothing() { return JOIN == 1u ? 0x3f800000u : (JOIN == 3u ? 1u : 0u); }

uint join(uint a, uint b) {
    if (JOIN == 0u) return floatBitsToUint(hlx_add(uintBitsToFloat(a), uintBitsToFloat(b)));
    if (JOIN == 1u) return floatBitsToUint(hlx_mul(uintBitsToFloat(a), uintBitsToFloat(b)));
    if (JOIN == 2u) return a + b;
    if (JOIN == 3u) return a * b;
    return max(a, b);
}

uint squared(uint word) {
    if (JOIN != 0u) return word * word;
    precise float value = uintBitsToFloat(word);
    return floatBitsToUint(hlx_mul(value, value));
}

uint load(uint at, uint row) {
    uint word = hlx_widen(DTYPE, x[hlx_element_word(DTYPE, at)], at);
    if (TERM == 1u) return squared(word);
    if (TERM == 2u) {
        uint key = hlx_order_key(DTYPE, word);
        return hlx_is_float(DTYPE) && key == HLX_NAN_KEY ? key : key ^ FLIP;
    }
    if (TERM >= 3u) {
        bool zero = (hlx_is_float(DTYPE) ? word & HLX_MAGNITUDE : word) == 0u;
        return uint(zero == (TERM == 4u));
    }
    return word;
}

void store(uint item, uint total) {
    if (JOIN == 0u) total = floatBitsToUint(hlx_pos0(uintBitsToFloat(total)));
    if (RESULT == 1u) {
        bool nan = hlx_is_float(DTYPE) && total == HLX_NAN_KEY;
        total = hlx_from_order_key(DTYPE, nan ? total : total ^ FLIP);
    }
    if (RESULT == 2u) total ^= 1u;
    result[item] = total;
}
