// One level of a SHA-256 tree, as chunks.comp computes it, by two threads a chunk.
//
// A chunk is a chain of blocks, so its time is the work of one thread. Here one thread makes the
// schedule of a block, round constants added, while its partner in another subgroup does the rounds
// of the block before; the words go through shared memory, and the two change buffers at a barrier.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/sha256.glsl"

const uint CHUNKS = 32u;  // Of a workgroup: threads 0 to 31 do rounds, the others schedules.

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint CANONICAL = 0u;

layout(push_constant) uniform Push {
    uint state[8];  // SHA-256's state after the prefix.
    uint n;         // Chunks of this launch.
    uint first;     // The place of their first digest.
    uint blocks;    // Of the longest chunk.
} push;

layout(set = 0, binding = 0) readonly restrict buffer Words1 { uint words1[]; };
layout(set = 0, binding = 0) readonly restrict buffer Words4 { uvec4 words4[]; };
layout(set = 0, binding = 1) readonly restrict buffer Chunks { uvec2 chunks[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Digests { uint digests[]; };

shared uint scheduled[2][64][CHUNKS];

#include "../include/sha256_message.glsl"

#define WORD(t, k) scheduled[buffer_idx][t][lane] = sha256_block[(t) & 15] + (k);
#define NEXT_WORD(t, k) \
    sha256_block[(t) & 15] += sha256_mix_0(sha256_block[((t) + 1) & 15]) \
        + sha256_block[((t) + 9) & 15] + sha256_mix_1(sha256_block[((t) + 14) & 15]); \
    WORD(t, k)

void make_schedule(uint buffer_idx, uint lane) {
    WORD(0, 0x428a2f98u)
    WORD(1, 0x71374491u)
    WORD(2, 0xb5c0fbcfu)
    WORD(3, 0xe9b5dba5u)
    WORD(4, 0x3956c25bu)
    WORD(5, 0x59f111f1u)
    WORD(6, 0x923f82a4u)
    WORD(7, 0xab1c5ed5u)
    WORD(8, 0xd807aa98u)
    WORD(9, 0x12835b01u)
    WORD(10, 0x243185beu)
    WORD(11, 0x550c7dc3u)
    WORD(12, 0x72be5d74u)
    WORD(13, 0x80deb1feu)
    WORD(14, 0x9bdc06a7u)
    WORD(15, 0xc19bf174u)
    NEXT_WORD(16, 0xe49b69c1u)
    NEXT_WORD(17, 0xefbe4786u)
    NEXT_WORD(18, 0x0fc19dc6u)
    NEXT_WORD(19, 0x240ca1ccu)
    NEXT_WORD(20, 0x2de92c6fu)
    NEXT_WORD(21, 0x4a7484aau)
    NEXT_WORD(22, 0x5cb0a9dcu)
    NEXT_WORD(23, 0x76f988dau)
    NEXT_WORD(24, 0x983e5152u)
    NEXT_WORD(25, 0xa831c66du)
    NEXT_WORD(26, 0xb00327c8u)
    NEXT_WORD(27, 0xbf597fc7u)
    NEXT_WORD(28, 0xc6e00bf3u)
    NEXT_WORD(29, 0xd5a79147u)
    NEXT_WORD(30, 0x06ca6351u)
    NEXT_WORD(31, 0x14292967u)
    NEXT_WORD(32, 0x27b70a85u)
    NEXT_WORD(33, 0x2e1b2138u)
    NEXT_WORD(34, 0x4d2c6dfcu)
    NEXT_WORD(35, 0x53380d13u)
    NEXT_WORD(36, 0x650a7354u)
    NEXT_WORD(37, 0x766a0abbu)
    NEXT_WORD(38, 0x81c2c92eu)
    NEXT_WORD(39, 0x92722c85u)
    NEXT_WORD(40, 0xa2bfe8a1u)
    NEXT_WORD(41, 0xa81a664bu)
    NEXT_WORD(42, 0xc24b8b70u)
    NEXT_WORD(43, 0xc76c51a3u)
    NEXT_WORD(44, 0xd192e819u)
    NEXT_WORD(45, 0xd6990624u)
    NEXT_WORD(46, 0xf40e3585u)
    NEXT_WORD(47, 0x106aa070u)
    NEXT_WORD(48, 0x19a4c116u)
    NEXT_WORD(49, 0x1e376c08u)
    NEXT_WORD(50, 0x2748774cu)
    NEXT_WORD(51, 0x34b0bcb5u)
    NEXT_WORD(52, 0x391c0cb3u)
    NEXT_WORD(53, 0x4ed8aa4au)
    NEXT_WORD(54, 0x5b9cca4fu)
    NEXT_WORD(55, 0x682e6ff3u)
    NEXT_WORD(56, 0x748f82eeu)
    NEXT_WORD(57, 0x78a5636fu)
    NEXT_WORD(58, 0x84c87814u)
    NEXT_WORD(59, 0x8cc70208u)
    NEXT_WORD(60, 0x90befffau)
    NEXT_WORD(61, 0xa4506cebu)
    NEXT_WORD(62, 0xbef9a3f7u)
    NEXT_WORD(63, 0xc67178f2u)
}

#define DO_ROUND(a, b, c, d, e, f, g, h, t) \
    h += sha256_sum_1(e) + (g ^ (e & (f ^ g))) + scheduled[buffer_idx][t][lane]; \
    d += h; \
    h += sha256_sum_0(a) + ((a & b) | (c & (a | b)));

void do_rounds(uint buffer_idx, uint lane) {
    uint a = sha256_state[0], b = sha256_state[1], c = sha256_state[2], d = sha256_state[3];
    uint e = sha256_state[4], f = sha256_state[5], g = sha256_state[6], h = sha256_state[7];
    [[unroll]] for (uint t = 0u; t < 64u; t += 8u) {
        DO_ROUND(a, b, c, d, e, f, g, h, t + 0u)
        DO_ROUND(h, a, b, c, d, e, f, g, t + 1u)
        DO_ROUND(g, h, a, b, c, d, e, f, t + 2u)
        DO_ROUND(f, g, h, a, b, c, d, e, t + 3u)
        DO_ROUND(e, f, g, h, a, b, c, d, t + 4u)
        DO_ROUND(d, e, f, g, h, a, b, c, t + 5u)
        DO_ROUND(c, d, e, f, g, h, a, b, t + 6u)
        DO_ROUND(b, c, d, e, f, g, h, a, t + 7u)
    }
    sha256_state[0] += a;
    sha256_state[1] += b;
    sha256_state[2] += c;
    sha256_state[3] += d;
    sha256_state[4] += e;
    sha256_state[5] += f;
    sha256_state[6] += g;
    sha256_state[7] += h;
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
