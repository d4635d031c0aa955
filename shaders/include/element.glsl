// An element of any type as a 32-bit word: f32, i32 and u32 as they lie, f16 and bf16 as the f32 of
// the same value, i8 sign-extended, u8 and bool zero-extended. Integer operations alone.
//
// A buffer is declared as words; element i of a type lies in word hlx_element_word(dtype, i), and
// hlx_widen takes it out. The ids are those of hlx_core::DType.

const uint HLX_F32 = 0u;
const uint HLX_F16 = 1u;
const uint HLX_BF16 = 2u;
const uint HLX_I32 = 3u;
const uint HLX_U32 = 4u;
const uint HLX_I8 = 5u;
const uint HLX_U8 = 6u;
const uint HLX_BOOL = 7u;

bool hlx_is_float(uint dtype) { return dtype <= HLX_BF16; }
bool hlx_is_signed(uint dtype) { return dtype == HLX_I32 || dtype == HLX_I8; }

// The word that holds element i.
uint hlx_element_word(uint dtype, uint i) {
    if (dtype == HLX_F16 || dtype == HLX_BF16) return i >> 1;
    return dtype >= HLX_I8 ? i >> 2 : i;
}

// The bits of the f32 with the value of an f16, whose subnormals are normal numbers in f32.
uint hlx_from_f16(uint half_bits) {
    uint magnitude = half_bits & 0x7fffu;
    uint top = uint(findMSB(magnitude | 1u));
    uint tiny = ((top + 103u) << 23) | ((magnitude << (23u - top)) & 0x007fffffu);
    uint bits = (magnitude << 13) + 0x38000000u;
    if (magnitude >= 0x7c00u) bits = (magnitude << 13) | 0x7f800000u;
    if (magnitude < 0x0400u) bits = magnitude == 0u ? 0u : tiny;
    return bits | ((half_bits & 0x8000u) << 16);
}

// The bits of the f32 with the value of a bf16; a subnormal is a zero of its sign.
uint hlx_from_bf16(uint half_bits) {
    return (half_bits & 0x7f80u) == 0u ? (half_bits & 0x8000u) << 16 : half_bits << 16;
}

// Element i out of its word.
uint hlx_widen(uint dtype, uint word, uint i) {
    if (dtype == HLX_F16) return hlx_from_f16((word >> (16u * (i & 1u))) & 0xffffu);
    if (dtype == HLX_BF16) return hlx_from_bf16((word >> (16u * (i & 1u))) & 0xffffu);
    if (dtype == HLX_I8) return uint(bitfieldExtract(int(word), int(8u * (i & 3u)), 8));
    if (dtype >= HLX_U8) return (word >> (8u * (i & 3u))) & 0xffu;
    return word;
}
