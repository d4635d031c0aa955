// Tiles for packed heads of at most 64 columns, which are in shared memory as a whole.
//
// A tile's row is UNITS vectors of four columns, zero past D. Two kinds of tile are in shared
// memory: ROWS rows in their order (queries in the forward and in dQ, keys in dK and dV), and
// blocks of columns (register_tile.glsl). A thread's accumulators are the vectors tx and tx + 8 of its
// rows.
//
// The including file defines THREAD_ROWS and THREADS_Y.

#define ROWS (THREAD_ROWS * THREADS_Y)
// Groups of threads that hold the same tile of different products.
#ifndef SIDES
#define SIDES 1
#endif
// Units that a contraction takes, and groups of four columns that an accumulation takes, a pass of
// an unrolled loop. More made an H200's driver compile for seconds and ran no faster.
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef UNROLL_J
#define UNROLL_J 2
#endif
#define THREADS (8 * THREADS_Y * SIDES)
const uint COLS = 32u;

layout(local_size_x = THREADS) in;

#include "packed.glsl"
// D is a multiple of four: whole vectors are loaded and stored.
layout(constant_id = 1) const bool VECTOR = false;

const uint UNITS = D > 32u ? 16u : 8u;

#ifdef STORED_DS
// ds between its two kernels, [head][block of 32 queries][key][query of the block], the keys up to
// the block's last: the place of four queries' ds of one key, in vectors.
uint stored_at(uint stored_head, uint query, uint key) {
    uint blocks = (push.time + 31u) / 32u;
    uint block = query / 32u;
    uint before = stored_head * (blocks * (blocks + 1u) / 2u) + block * (block + 1u) / 2u;
    return before * 256u + key * 8u + query % 32u / 4u;
}
#endif

#include "register_tile.glsl"

// n rows from t0 on into tile[first ..]. Rows past the end repeat the last one: what is computed of them is
// neither added nor stored.
#define LOAD_TILE(tile, first, n, order, fetch, base, stride, t0)                \
    [[unroll]] for (uint i = 0u; i < ((n) * UNITS + THREADS - 1u) / THREADS; ++i) { \
        uint at = gl_LocalInvocationIndex + i * THREADS;                         \
        uint slot = at / UNITS;                                                  \
        uint unit = at % UNITS;                                                  \
        if (((n) * UNITS) % THREADS == 0u || at < (n) * UNITS) {                 \
            uint t = min((t0) + order(slot), push.time - 1u);                    \
            tile[(first) + slot * UNITS + (unit ^ (slot & 7u))] =                \
                fetch((base) + t * (stride) + 4u * unit, 4u * unit);             \
        }                                                                        \
    }

// The vectors u_first .. u_end - 1 of the chains, as far as D goes.
#define CONTRACT_PART(s, ROW_VECTOR, columns, columns_first, u_first, u_end)     \
    if (NATIVE) {                                                                \
        [[dont_unroll]] for (uint u0 = u_first; u0 < (u_end) && 4u * u0 < D; u0 += UNROLL) \
            [[unroll]] for (uint i = 0u; i < UNROLL; ++i)                        \
                CONTRACT_UNIT(s, ROW_VECTOR, columns, columns_first, u0 + i, [[unroll]]) \
    } else {                                                                     \
        for (uint u = u_first; u < (u_end) && 4u * u < D; ++u)                   \
            CONTRACT_UNIT(s, ROW_VECTOR, columns, columns_first, u, )            \
    }
#define CONTRACT(s, ROW_VECTOR, columns, columns_first)                          \
    CONTRACT_PART(s, ROW_VECTOR, columns, columns_first, 0u, UNITS)

// sums[r][v] (vector tx + 8 v of row r) goes on over the block's columns. At an edge, a block of which some row does
// not see every column, it goes on over those that row r sees: SEES(r, column), which the including file defines,
// among the columns from 4 first_j on and before 4 end_j. Times a weight of 0, an infinity would be NaN. (Measured on
// an H100, 8 x 4 heads of 128 positions: 3 % more time forward. A loop of its own for columns that all rows see took
// 7 % more; to look for infinities first 7 %, and 33 % more with many heads, whose workgroups it made fewer.)
#define ADD_TO_SUMS(r, v, x, y, column) sums[r][v] = fma4(x, y, sums[r][v]);
#define ADD_IF_SEEN(r, v, x, y, column)                                          \
    if (SEES(r, column)) { ADD_TO_SUMS(r, v, x, y, column) }
#define ACCUMULATE(edge, first_j, end_j, weights, weights_first, columns, columns_first) \
    if (!(edge)) {                                                               \
        ACCUMULATE_BY(ADD_TO_SUMS, weights, weights_first, columns, columns_first) \
    } else if (NATIVE) {                                                         \
        [[dont_unroll]] for (uint j = first_j; j < end_j; ++j)                   \
            ACCUMULATE_UNIT(ADD_IF_SEEN, weights, weights_first, columns, columns_first, j, [[unroll]]) \
    } else {                                                                     \
        for (uint j = first_j; j < end_j; ++j)                                   \
            ACCUMULATE_UNIT(ADD_IF_SEEN, weights, weights_first, columns, columns_first, j, ) \
    }
