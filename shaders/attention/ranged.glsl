// Attention over ranges: what its kernels share. Each query sees the keys begin .. end - 1 of its
// row, each key is seen by the queries begin .. end - 1 (ranges.glsl); what is not seen is skipped.
//
// A workgroup has ROWS rows (queries in the forward and in dQ, keys in dK and dV) against blocks of
// 32 columns, whose D passes through shared memory in CHUNKS parts of 64 (register_tile.glsl). Rows
// are read through the cache: eight neighbouring threads read the same vector.
// q: [B, T, H, D], k and v: [B, S, H / G, D], by strides.
//
// The including file defines THREAD_ROWS, THREADS_Y and CHUNKS.
#extension GL_EXT_control_flow_attributes : require

#define ROWS (THREAD_ROWS * THREADS_Y)
#ifndef SIDES
#define SIDES 1
#endif
#define UNROLL 4
#define UNROLL_J 2
#define THREADS (8 * THREADS_Y * SIDES)
const uint COLS = 32u;

layout(local_size_x = THREADS) in;

layout(constant_id = 0) const uint D = 64;
// D, the strides and the first elements are multiples of four: whole vectors are loaded and stored.
layout(constant_id = 1) const bool VECTOR = false;
// Scores become cap tanh(s / cap).
layout(constant_id = 2) const bool CAPPED = false;
// Weights are dropped.
layout(constant_id = 3) const bool DROPPED = false;

#if CHUNKS == 1
const uint UNITS = D > 32u ? 16u : 8u;
#else
const uint UNITS = 16u;
#endif

layout(push_constant) uniform Push {
    uint batch;
    uint queries;
    uint keys;
    uint heads;
    uint group;  // query heads of a key head
    // The first element, and the strides of samples, positions and heads.
    uint q_first;
    uint q_batch;
    uint q_position;
    uint q_head;
    uint k_first;
    uint k_batch;
    uint k_position;
    uint k_head;
    uint v_first;
    uint v_batch;
    uint v_position;
    uint v_head;
    float scale;
    float cap;
    float inverse_cap;
    uint seed_low;
    uint seed_high;
    uint purpose;
    float p;
    float factor;  // 1 / (1 - p)
} push;

#include "register_tile.glsl"

uint q_base(uint sample_idx, uint head) {
    return push.q_first + sample_idx * push.q_batch + head * push.q_head;
}
uint k_base(uint sample_idx, uint head) {
    return push.k_first + sample_idx * push.k_batch + head / push.group * push.k_head;
}
uint v_base(uint sample_idx, uint head) {
    return push.v_first + sample_idx * push.v_batch + head / push.group * push.v_head;
}
// Element [sample, 0, head, 0] of o and d_o, [B, T, H, D]; a step of t is O_STRIDE.
#define O_STRIDE (push.heads * D)
uint o_base(uint sample_idx, uint head) { return sample_idx * push.queries * O_STRIDE + head * D; }
// [sample, head, t = 0] of [B, H, T].
uint stats_base(uint sample_idx, uint head) {
    return (sample_idx * push.heads + head) * push.queries;
}

// The 64 columns from d = 64 chunk of 32 rows from t0 on, into tile[first ..]. Rows past `last` repeat
// it: they are not seen.
#define LOAD_COLUMNS(tile, first, fetch, base, stride, t0, last, chunk)          \
    [[unroll]] for (uint i = 0u; i < (COLS * UNITS + THREADS - 1u) / THREADS; ++i) { \
        uint at = gl_LocalInvocationIndex + i * THREADS;                         \
        uint slot = at / UNITS;                                                  \
        uint unit = at % UNITS;                                                  \
        if ((COLS * UNITS) % THREADS == 0u || at < COLS * UNITS) {               \
            uint t = min((t0) + COLUMN_OF_SLOT(slot), last);                     \
            uint d = 64u * (chunk) + 4u * unit;                                  \
            tile[(first) + slot * UNITS + (unit ^ (slot & 7u))] = fetch((base) + t * (stride) + d, d); \
        }                                                                        \
    }

// The terms of a chunk of s[r][c] = chain over d of rows times columns; ROW_VECTOR(r, u) gives the
// columns first_d .. first_d + 3 of a row.
#define CONTRACT_CHUNK(s, ROW_VECTOR, columns, columns_first, chunk)             \
    {                                                                            \
        uint units = min(UNITS, (D - 64u * (chunk) + 3u) / 4u);                  \
        if (NATIVE) {                                                            \
            [[dont_unroll]] for (uint u0 = 0u; u0 < units; u0 += UNROLL)         \
                [[unroll]] for (uint i = 0u; i < UNROLL; ++i) {                  \
                    uint first_d = 64u * (chunk) + 4u * (u0 + i);                \
                    CONTRACT_UNIT(s, ROW_VECTOR, columns, columns_first, u0 + i, [[unroll]]) \
                }                                                                \
        } else {                                                                 \
            for (uint u = 0u; u < units; ++u) {                                  \
                uint first_d = 64u * (chunk) + 4u * u;                           \
                CONTRACT_UNIT(s, ROW_VECTOR, columns, columns_first, u, ) \
            }                                                                    \
        }                                                                        \
    }

// sums[r] goes on over the block's columns that row r sees: all of them, or low[r] .. high[r] - 1.
#define ADD_COLUMN(r, v, x, y, column) sums[r][v_first + (v)] = fma4(x, y, sums[r][v_first + (v)]);
#define ADD_SEEN_COLUMN(r, v, x, y, column)                                      \
    if ((column) >= low[r] && (column) < high[r]) { ADD_COLUMN(r, v, x, y, column) }
#define ACCUMULATE_CHUNK(edge, weights, weights_first, columns, columns_first, chunk) \
    {                                                                            \
        uint v_first = 2u * (chunk);                                       \
        if (!(edge)) {                                                           \
            ACCUMULATE_BY(ADD_COLUMN, weights, weights_first, columns, columns_first) \
        } else if (NATIVE) {                                                     \
            [[dont_unroll]] for (uint j = 0u; j < 8u; ++j)                       \
                ACCUMULATE_UNIT(ADD_SEEN_COLUMN, weights, weights_first, columns, columns_first, j, [[unroll]]) \
        } else {                                                                 \
            for (uint j = 0u; j < 8u; ++j)                                       \
                ACCUMULATE_UNIT(ADD_SEEN_COLUMN, weights, weights_first, columns, columns_first, j, ) \
        }                                                                        \
    }

// A score's chain to the score, and to tanh(s / cap) where scores are capped.
float score(float chain, out float t) {
    precise float s = hlx_mul(chain, push.scale);
    t = 0.0;
    if (CAPPED) {
        t = hlx_tanh(hlx_mul(s, push.inverse_cap));
        s = hlx_mul(push.cap, t);
    }
    return s;
}

#include "draws.glsl"
