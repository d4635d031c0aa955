// Attention over ranges for few queries: the scores and their maxima by blocks of 32 keys.
//   scores[r, j] = (sum_d q[r, d] k[j, d]) * scale, or cap tanh(s / cap); -inf where row r does not see j
//   tops[r, b] = max of scores[r, j] over the keys of block b, +0 for either zero
// A workgroup has a block of keys and up to 8 rows of a key head (few_queries.glsl), a thread one chain.
#define PAGES_SLOT 5
#include "few_queries.glsl"

#define ROWS 8u
#define THREADS 256u
layout(local_size_x = 256) in;

// 128 columns of keys and queries are in shared memory at a time.
const uint UNITS = D < 128u ? (D + 3u) / 4u : 32u;
// An odd number of vectors per key: neighbouring threads read from other banks.
const uint KEY_UNITS = UNITS | 1u;

READ_ROWS(0, readonly restrict, Q, fetch_q, q_scalars, q_vectors)
READ_ROWS(1, readonly restrict, K, fetch_k, k_scalars, k_vectors)
layout(set = 0, binding = 2) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Scores { float scores[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Tops { float tops[]; };

shared vec4 key_tile[BLOCK * KEY_UNITS];
shared vec4 query_tile[ROWS * UNITS];
shared float row_scores[ROWS * BLOCK];
shared float eighths[ROWS * 8u];

// Vectors that are loaded while the terms of as many others are added, so that no term waits for shared
// memory.
#define BATCH 4u
#define LOAD_BATCH(batch)                                                       \
    [[unroll]] for (uint i = 0u; i < BATCH; ++i) {                               \
        x[(batch) & 1u][i] = query_tile[row * UNITS + (batch) * BATCH + i];      \
        y[(batch) & 1u][i] = key_tile[lane * KEY_UNITS + (batch) * BATCH + i];   \
    }

float larger_of_four(float a, float b, float c, float d) {
    return hlx_max(hlx_max(a, b), hlx_max(c, d));
}

void main() {
    FIND_ROWS(uint block = hlx_group() % BLOCKS;, BLOCKS)
    uint key0 = block * BLOCK;

    bool seen = false;
    for (uint t = first_row / push.group; t <= (first_row + n - 1u) / push.group; ++t) {
        uvec4 range = ranges[sample_idx * push.queries + t];
        seen = seen || (range.y < key0 + BLOCK && range.z > key0);
    }
    if (!seen) return;

    uint thread = gl_LocalInvocationIndex;
    uint lane = thread % BLOCK;
    uint row = thread / BLOCK;
    uint first_head = key_head * push.group;
    uint k_at = k_base(sample_idx, first_head) + page_shift(sample_idx, key0) * push.k_position;
    precise float chain = 0.0;
    for (uint first_d = 0u; first_d < D; first_d += 4u * UNITS) {
        if (first_d > 0u) barrier();
        [[unroll]] for (uint i = 0u; i < (BLOCK * UNITS + THREADS - 1u) / THREADS; ++i) {
            uint at = thread + i * THREADS;
            uint t = min(key0 + at / UNITS, push.keys - 1u);
            uint d = first_d + 4u * (at % UNITS);
            if (at < BLOCK * UNITS)
                key_tile[at / UNITS * KEY_UNITS + at % UNITS] =
                    fetch_k(k_at + t * push.k_position + d, d);
        }
        for (uint at = thread; at < n * UNITS; at += THREADS) {
            uint r = first_row + at / UNITS;
            uint d = first_d + 4u * (at % UNITS);
            uint place = q_base(sample_idx, first_head + r % push.group) + r / push.group * push.q_position;
            query_tile[at] = fetch_q(place + d, d);
        }
        barrier();
        if (row < n && NATIVE && UNITS % BATCH == 0u) {
            vec4 x[2][BATCH];
            vec4 y[2][BATCH];
            LOAD_BATCH(0u)
            [[unroll]] for (uint batch = 0u; batch < UNITS / BATCH; ++batch) {
                if (batch + 1u < UNITS / BATCH) { LOAD_BATCH(batch + 1u) }
                [[unroll]] for (uint i = 0u; i < BATCH; ++i)
                    [[unroll]] for (uint c = 0u; c < 4u; ++c)
                        chain = hlx_fma(x[batch & 1u][i][c], y[batch & 1u][i][c], chain);
            }
        } else if (row < n) {
            for (uint u = 0u; u < UNITS; ++u) {
                vec4 x = query_tile[row * UNITS + u];
                vec4 y = key_tile[lane * KEY_UNITS + u];
                for (uint c = 0u; c < 4u; ++c) chain = hlx_fma(x[c], y[c], chain);
            }
        }
    }

    uint blocks_at = row_blocks(sample_idx, key_head, first_row + row) + block;
    if (row < n) {
        precise float t;
        precise float s = score(chain, t);
        uvec4 range = ranges[sample_idx * push.queries + (first_row + row) / push.group];
        uint key = key0 + lane;
        if (key < range.y || key >= range.z) s = uintBitsToFloat(0xff800000u);
        row_scores[thread] = s;
        scores[blocks_at * BLOCK + lane] = s;
    }
    barrier();
    if (row < n && lane < 8u) {
        uint at = BLOCK * row + 4u * lane;
        eighths[8u * row + lane] = larger_of_four(row_scores[at], row_scores[at + 1u],
                                                  row_scores[at + 2u], row_scores[at + 3u]);
    }
    barrier();
    if (row < n && lane == 0u) {
        uint at = 8u * row;
        precise float left = larger_of_four(eighths[at], eighths[at + 1u], eighths[at + 2u], eighths[at + 3u]);
        precise float right =
            larger_of_four(eighths[at + 4u], eighths[at + 5u], eighths[at + 6u], eighths[at + 7u]);
        tops[blocks_at] = hlx_pos0(hlx_max(left, right));
    }
}
