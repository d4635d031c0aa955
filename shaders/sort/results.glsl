// Where the last kernel of a sort writes: places to result [lines, k], and to `second` nothing, the
// keys, or the values, which are words of 32 bits.
layout(constant_id = 3) const uint SECOND = 0u;
const uint SECOND_KEYS = 1u;
const uint SECOND_VALUES = 2u;

layout(set = 0, binding = 1) writeonly restrict buffer Second { uint second[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Result { uint result[]; };

// The element with this key: what the key does not tell, a zero's sign and NaN's payload, is read.
uint value_of(uint line, uint key, uint place) {
    key ^= FLIP;
    if (hlx_is_float(DTYPE) && (key == HLX_NAN_KEY || key == 0x80000000u))
        return x[hlx_line_place(line) + place * push.axis_stride];
    return hlx_from_order_key(DTYPE, key);
}

// Stores result j of a line; those from k on are left out.
void store_result(uint line, uint j, uint key, uint place) {
    if (j >= push.k) return;
    uint at = result_place(line, j);
    result[at] = place;
    if (SECOND == SECOND_KEYS) second[at] = key;
    if (SECOND == SECOND_VALUES) second[at] = value_of(line, key, place);
}
