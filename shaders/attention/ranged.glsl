// Attention over ranges: what its kernels share. Each query sees the keys begin .. end - 1 of its
// row, each key is seen by the queries begin .. end - 1 (ranges.glsl); what is not seen is skipped.
//
// A workgroup has ROWS rows (queries in the forward and in dQ, keys in dK and dV) against blocks of
// 32 columns, whose D passes through shared memory in CHUNKS parts of 64 (register_tile.glsl). Rows
// are read through the cache: eight neighbouring threads read the same vector.
// The including file defines THREAD_ROWS, THREADS_Y and CHUNKS.

#define ROWS (THREAD_ROWS * THREADS_Y)
#ifndef SIDES
#define SIDES 1
#endif
#define UNROLL 4
#define UNROLL_J 2
#define THREADS (8 * THREADS_Y * SIDES)
const uint COLS = 32u;

layout(local_size_x = THREADS) in;

#include "ranged_operands.glsl"

#if CHUNKS == 1
const uint UNITS = D > 32u ? 16u : 8u;
#else
const uint UNITS = 16u;
#endif

#include "register_tile.glsl"

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

#include "draws.glsl"
