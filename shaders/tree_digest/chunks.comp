// One level of a SHA-256 tree: digest[i] = SHA-256(prefix | words[start .. start + count]) for
// each chunk i with (start, count) = chunks[i]; digests [n, 8], as bytes in SHA-256's order.
//
// The prefix is one block, so that hashing starts from a state that the host gives. Words are
// bytes in little-endian order; with CANONICAL every NaN is read as 0x7fc00000. A thread hashes a
// chunk by itself, and loads its next block while it works on one. start is a multiple of 4.
#include "../include/arith.glsl"
#include "../include/sha256.glsl"

layout(local_size_x = 32) in;

layout(push_constant) uniform Push {
    uint state[8];  // SHA-256's state after the prefix.
    uint n;         // Chunks of this launch.
    uint first;     // The place of their first digest.
} push;

#define FIRST(a, b, c, d, e, f, g, h, k, w) SHA256_ROUND(a, b, c, d, e, f, g, h, (k + sha256_block[(w) & 15]))
#define LATER(a, b, c, d, e, f, g, h, k, w) SHA256_SCHEDULE(w) FIRST(a, b, c, d, e, f, g, h, k, w)

void sha256_compress() {
    SHA256_VARIABLES
    SHA256_STEPS(FIRST, LATER)
    SHA256_ADD_VARIABLES
}

#include "../include/sha256_message.glsl"

void main() {
    uint chunk = hlx_group() * 32u + gl_LocalInvocationID.x;
    if (chunk >= push.n) return;
    uint start = chunks[chunk].x, count = chunks[chunk].y;
    uint blocks = (count + 18u) / 16u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) sha256_state[i] = push.state[i];
    load_words(start, count, 0u);
    for (uint block = 0u; block < blocks; ++block) {
        [[unroll]] for (uint i = 0u; i < 16u; ++i)
            sha256_block[i] = message_word(next[i], 16u * block + i, count, blocks);
        if (block + 1u < blocks) load_words(start, count, block + 1u);
        sha256_compress();
    }
    [[unroll]] for (uint i = 0u; i < 8u; ++i)
        digests[8u * (push.first + chunk) + i] = sha256_swap(sha256_state[i]);
}
