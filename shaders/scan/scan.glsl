// What both scans share: x [lines, n] along an axis of stride axis_stride, cut into pieces; an item
// is a piece of a line. Within a piece a chain from +0 (products: from 1) over its elements in
// order; a result is the chain so far, joined to what the pieces before came to (`before`).
//
// With TOTALS only the chain's end is stored, by item; without, the result of every element, at
// (line / inner) n inner + row inner + line mod inner. With BEFORE, before [items] holds the
// running totals of the items, of which an item takes the last one's. A float sum of zero is +0:
// compilers drop the chain's first addition, whose only trace is a zero's sign.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint JOIN = 0u;  // 0 float add, 1 float mul, 2 add, 3 mul
layout(constant_id = 1) const uint TOTALS = 0u;
layout(constant_id = 2) const uint BEFORE = 0u;
layout(constant_id = 3) const uint AHEAD = 16u;

layout(push_constant) uniform Push {
    uint items, lines;
    uint pieces;  // of a line
    uint piece;   // elements of a piece
    uint n;       // elements of a line
    uint inner, axis_stride;
    HLX_LINE_MEMBERS
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Before { uint before[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Result { uint result[]; };

#include "../include/lines.glsl"

uint nothing() { return JOIN == 1u ? 0x3f800000u : (JOIN == 3u ? 1u : 0u); }

uint join(uint a, uint b) {
    if (JOIN == 0u) return floatBitsToUint(hlx_add(uintBitsToFloat(a), uintBitsToFloat(b)));
    if (JOIN == 1u) return floatBitsToUint(hlx_mul(uintBitsToFloat(a), uintBitsToFloat(b)));
    return JOIN == 2u ? a + b : a * b;
}

uint stored(uint total) {
    return JOIN == 0u ? floatBitsToUint(hlx_pos0(uintBitsToFloat(total))) : total;
}
