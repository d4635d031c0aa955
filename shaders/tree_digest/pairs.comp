// One level of a SHA-256 tree, as chunks.comp computes it, by two threads a chunk.
//
// A chunk is a chain of blocks, so its time is the work of one thread. Here one thread makes the
// schedule of a block, round constants added, while its partner in another subgroup does the rounds
// of the block before; the words go through shared memory, and the two change buffers at a barrier.
#include "../include/arith.glsl"
#include "../include/sha256.glsl"

const uint CHUNKS = 32u;  // Of a workgroup: threads 0 to 31 do rounds, the others schedules.

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
    uint state[8];  // SHA-256's state after the prefix.
    uint n;         // Chunks of this launch.
    uint first;     // The place of their first digest.
    uint blocks;    // Of the longest chunk.
} push;

shared uint scheduled[2][64][CHUNKS];

#include "../include/sha256_message.glsl"

#define WORD(a, b, c, d, e, f, g, h, k, t) scheduled[buffer_idx][t][lane] = sha256_block[(t) & 15] + (k);
#define NEXT_WORD(a, b, c, d, e, f, g, h, k, t) SHA256_SCHEDULE(t) WORD(a, b, c, d, e, f, g, h, k, t)

void make_schedule(uint buffer_idx, uint lane) {
    SHA256_STEPS(WORD, NEXT_WORD)
}

#define DO_ROUND(a, b, c, d, e, f, g, h, k, t) SHA256_ROUND(a, b, c, d, e, f, g, h, scheduled[buffer_idx][t][lane])

void do_rounds(uint buffer_idx, uint lane) {
    SHA256_VARIABLES
    [[unroll]] for (uint t = 0u; t < 64u; t += 8u) {
        SHA256_EIGHT(DO_ROUND, t, 0, 0, 0, 0, 0, 0, 0, 0)
    }
    SHA256_ADD_VARIABLES
}

void main() {
    uint lane = gl_LocalInvocationID.x % CHUNKS;
    bool schedules = gl_LocalInvocationID.x >= CHUNKS;
    uint chunk = hlx_group() * CHUNKS + lane;
    bool is_there = chunk < push.n;
    uint start = is_there ? chunks[chunk].x : 0u, count = is_there ? chunks[chunk].y : 0u;
    uint blocks = is_there ? (count + 18u) / 16u : 0u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) sha256_state[i] = push.state[i];
    if (schedules && is_there) load_words(start, count, 0u);
    for (uint block = 0u; block <= push.blocks; ++block) {
        if (schedules && block < blocks) {
            [[unroll]] for (uint i = 0u; i < 16u; ++i)
                sha256_block[i] = message_word(next[i], 16u * block + i, count, blocks);
            if (block + 1u < blocks) load_words(start, count, block + 1u);
            make_schedule(block & 1u, lane);
        }
        if (!schedules && block > 0u && block <= blocks) do_rounds((block - 1u) & 1u, lane);
        barrier();
    }
    if (schedules || !is_there) return;
    [[unroll]] for (uint i = 0u; i < 8u; ++i)
        digests[8u * (push.first + chunk) + i] = sha256_swap(sha256_state[i]);
}
