// Unsigned integers in the order of numbers: hlx_order_key(a) < hlx_order_key(b) where a < b.
//
// Both zeros have one key, and every NaN has the largest one. Selections by keys show no order and
// need no float compares. Needs element.glsl; `dtype` is that of a widened word.
#include "element.glsl"

const uint HLX_NAN_KEY = 0xffffffffu;

uint hlx_order_key(uint dtype, uint bits) {
    if (hlx_is_signed(dtype)) return bits ^ 0x80000000u;
    if (!hlx_is_float(dtype)) return bits;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return HLX_NAN_KEY;
    if (magnitude == 0u) return 0x80000000u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

// The word with this key: +0 for zeros, the quiet NaN 0x7fc00000 for NaN.
uint hlx_from_order_key(uint dtype, uint key) {
    if (hlx_is_signed(dtype)) return key ^ 0x80000000u;
    if (!hlx_is_float(dtype)) return key;
    if (key == HLX_NAN_KEY) return 0x7fc00000u;
    return (key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key;
}
