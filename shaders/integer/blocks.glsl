// Weights in blocks (hlx-kernels, product/blocks): rows lie in panels of 16, whose words of one place are side by side. A chunk
// is a block of 256 terms or of 64, or two of 32: the integers' lower bits, their upper ones, four scales per word, four minima
// per word, and d with dmin, or the two d, each of 16 bits, or one d of 32.
#include "../include/arith.glsl"
#include "../include/element.glsl"

layout(constant_id = 20) const uint BLOCK = 256;
layout(constant_id = 21) const uint GROUP = 32;
layout(constant_id = 22) const uint LOW_BITS = 4;
layout(constant_id = 23) const uint HIGH_BITS = 0;
// Of an integer without a sign; those of 8 bits have theirs.
layout(constant_id = 24) const uint OFFSET = 0;
// What the bits stand for: 0 an integer, 1 a doubled E2M1, 2 a place in the table of NF4, whose integers have their signs.
layout(constant_id = 25) const uint LEVELS = 0;
layout(constant_id = 26) const bool HAS_SCALES = true;
layout(constant_id = 27) const bool HAS_MINS = true;
// d is 0 an f16, 1 the upper half of an f32, 2 an f32.
layout(constant_id = 28) const uint FACTOR = 0;
const bool IS_NF4 = LEVELS == 2u;

const uint PANEL = 16u;
const uint CHUNK = BLOCK == 256u ? 256u : 64u;
const uint BLOCKS_OF_CHUNK = CHUNK / BLOCK;
const uint GROUPS = BLOCK / GROUP;
const uint HIGH_AT = CHUNK * LOW_BITS / 32u;
const uint SCALES_AT = HIGH_AT + CHUNK * HIGH_BITS / 32u;
const uint SCALE_WORDS = HAS_SCALES ? CHUNK / GROUP / 4u : 0u;
const uint MINS_AT = SCALES_AT + SCALE_WORDS;
const uint FACTORS_AT = MINS_AT + (HAS_MINS ? SCALE_WORDS : 0u);
const uint CHUNK_WORDS = FACTORS_AT + (HAS_MINS ? BLOCKS_OF_CHUNK : 1u);

layout(set = 0, binding = 2) readonly restrict buffer Blocks { uint block_words[]; };

// Where the words of a row's chunk begin: 16 apart.
uint chunk_at(uint row, uint chunk, uint chunks) {
    return ((row / PANEL * chunks + chunk) * CHUNK_WORDS) * PANEL + row % PANEL;
}
#ifdef HELD_CHUNKS
// Chunks that a thread holds, one behind the other: `at` is where one begins in the place of memory.
uint held[HELD_CHUNKS * CHUNK_WORDS];
uint block_word(uint at, uint word) { return held[at + word]; }
#else
uint block_word(uint at, uint word) { return block_words[at + word * PANEL]; }
#endif

// Four doubled E2M1 numbers plus 12, by their bits.
uint e2m1(uint bits) {
    uint low = bits & 0x03030303u;
    uint is_large = bits >> 2 & 0x01010101u;
    // 4, 6, 8, 12 where the third bit is set: 4 + 2 low, and 2 more where low is 3.
    uint more = 0x04040404u + low + ((low & low >> 1) << 1 & 0x02020202u);
    uint size = low + (more & is_large * 255u);
    uint is_negative = (bits >> 3 & 0x01010101u) * 255u;
    return 0x0c0c0c0cu + (size & ~is_negative) - (size & is_negative);
}

// Of four bytes: the first where the mask's are 0, the second where they are 255.
uint chosen(uint zero, uint one, uint mask) { return zero ^ (zero ^ one) & mask; }

// Four integers of NF4 by their places: the nearest ones of 127 times the table's numbers.
uint nf4(uint bits) {
    uvec4 bit = (uvec4(bits) >> uvec4(0u, 1u, 2u, 3u) & 0x01010101u) * 255u;
    // -127 -88, -67 -50, -36 -23, -12 0; 10 20, 31 43, 56 71, 92 127.
    uint below = chosen(chosen(chosen(0x81818181u, 0xa8a8a8a8u, bit.x), chosen(0xbdbdbdbdu, 0xcecececeu, bit.x), bit.y),
                        chosen(chosen(0xdcdcdcdcu, 0xe9e9e9e9u, bit.x), chosen(0xf4f4f4f4u, 0u, bit.x), bit.y), bit.z);
    uint above = chosen(chosen(chosen(0x0a0a0a0au, 0x14141414u, bit.x), chosen(0x1f1f1f1fu, 0x2b2b2b2bu, bit.x), bit.y),
                        chosen(chosen(0x38383838u, 0x47474747u, bit.x), chosen(0x5c5c5c5cu, 0x7f7f7f7fu, bit.x), bit.y), bit.z);
    return chosen(below, above, bit.w);
}

// A chunk's unit of 16 integers as it is stored: the words with the lower bits, of which those of 2 bits have one, and the word
// with the upper ones.
uvec4 unit_low(uint at, uint unit) {
    uint first = unit / 2u * LOW_BITS + (LOW_BITS == 8u ? unit % 2u * 4u : LOW_BITS == 2u ? unit % 2u : 0u);
    if (LOW_BITS == 2u) return uvec4(block_word(at, first));
    return uvec4(block_word(at, first), block_word(at, first + 1u), block_word(at, first + 2u), block_word(at, first + 3u));
}
uint unit_high(uint at, uint unit) {
    if (HIGH_BITS == 0u) return 0u;
    return block_word(at, HIGH_AT + unit / 2u * HIGH_BITS + (HIGH_BITS == 2u ? unit % 2u : 0u));
}

// The bits of four integers of a unit, those from 4 quad on, a byte each.
uint quad_bits(uvec4 low, uint high, uint unit, uint quad) {
    if (LOW_BITS == 8u) return low[quad];
    uint bits = LOW_BITS == 4u ? low[quad] >> (4u * (unit % 2u)) & 0x0f0f0f0fu : low[0] >> (2u * quad) & 0x03030303u;
    if (HIGH_BITS == 1u) bits |= (high >> (4u * (unit % 2u) + quad) & 0x01010101u) << LOW_BITS;
    if (HIGH_BITS == 2u) bits |= (high >> (2u * quad) & 0x03030303u) << LOW_BITS;
    return bits;
}
// Four integers of a unit: of 8 bits and NF4's with their signs, others plus OFFSET.
uint quad_of(uvec4 low, uint high, uint unit, uint quad) {
    uint bits = quad_bits(low, high, unit, quad);
    if (LEVELS == 1u) return e2m1(bits);
    return IS_NF4 ? nf4(bits) : bits;
}
uvec4 block_unit(uint at, uint unit) {
    uvec4 low = unit_low(at, unit);
    uint high = unit_high(at, unit);
    uvec4 integers;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) integers[i] = quad_of(low, high, unit, i);
    return integers;
}

// Of a group of a chunk's block.
int block_scale(uint at, uint group) {
    return HAS_SCALES ? bitfieldExtract(int(block_word(at, SCALES_AT + group / 4u)), int(8u * (group % 4u)), 8) : 1;
}
int block_min(uint at, uint group) {
    return HAS_SCALES ? int(block_word(at, MINS_AT + group / 4u) >> (8u * (group % 4u)) & 255u) : 1;
}

// d and dmin of a chunk's block, in formats without minima of one of two blocks per word.
vec2 factors_of(uint word, uint block) {
    if (FACTOR == 2u) return vec2(uintBitsToFloat(word), 0.0);
    uvec2 bits = HAS_MINS ? uvec2(word & 0xffffu, word >> 16) : uvec2(word >> (16u * block) & 0xffffu, 0u);
    uvec2 wide = FACTOR == 1u ? bits << 16 : uvec2(hlx_from_f16(bits.x), hlx_from_f16(bits.y));
    return uintBitsToFloat(wide);
}
vec2 block_factors(uint at, uint block) {
    return factors_of(block_word(at, FACTORS_AT + (HAS_MINS ? block : 0u)), block);
}
// The same as products multiply sums by them: of NF4's d, 1/127.
vec2 sum_factors(uint word, uint block) {
    vec2 factors = factors_of(word, block);
    return IS_NF4 ? vec2(hlx_mul(factors.x, uintBitsToFloat(0x3c010204u)), 0.0) : factors;
}
vec2 block_sum_factors(uint at, uint block) {
    return sum_factors(block_word(at, FACTORS_AT + (HAS_MINS ? block : 0u)), block);
}
