// A chunk's blocks as SHA-256 reads them: loading, byte order, and the padding at the end.

layout(constant_id = 0) const uint CANONICAL = 0u;

HLX_VIEWS(0, readonly restrict, uint, Words, words)
layout(set = 0, binding = 1) readonly restrict buffer Chunks { uvec2 chunks[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Digests { uint digests[]; };

uint next[16];  // The words of the block to come, as they are loaded.

void load_words(uint start, uint count, uint block) {
    uint at = 16u * block;
    if (at + 16u <= count) {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uvec4 four = words4[(start + at) / 4u + i];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) next[4u * i + j] = four[j];
        }
    } else {
        [[unroll]] for (uint i = 0u; i < 16u; ++i)
            next[i] = at + i < count ? words1[start + at + i] : 0u;
    }
}

// A word as SHA-256 reads it; after the words come a one bit, zeros, and the number of bits.
uint message_word(uint word, uint index, uint count, uint blocks) {
    if (CANONICAL != 0u && (word & 0x7fffffffu) > 0x7f800000u) word = HLX_NAN;
    uint bits = index + 1u == 16u * blocks ? 512u + 32u * count : 0u;
    return index < count ? sha256_swap(word) : (index == count ? 0x80000000u : bits);
}
