// The products of a workgroup's rows with a block of 32 "columns" (keys, or queries): who holds what,
// and the two forms of a product. The including file has THREAD_ROWS, THREADS_Y, UNITS, D and VECTOR.
//
// Column number 4 x + c of a block lies in slot 8 c + x of its tile in shared memory. A vector's place
// within its row is permuted by an exclusive or with the slot's lowest bits, so that eight
// neighbouring threads always access eight different bank groups.
//
// Thread (tx, ty) = (thread % 8, thread / 8) holds THREAD_ROWS rows of the product, four apart, and
// columns 4 tx .. 4 tx + 3. 32 consecutive threads hold 4 THREAD_ROWS consecutive rows.
#include "vectors.glsl"

vec4 fma4(float a, vec4 b, vec4 c) {
    precise vec4 r = vec4(hlx_fma(a, b.x, c.x), hlx_fma(a, b.y, c.y), hlx_fma(a, b.z, c.z),
                          hlx_fma(a, b.w, c.w));
    return r;
}

vec4 mul4(vec4 a, float b) {
    precise vec4 r =
        vec4(hlx_mul(a.x, b), hlx_mul(a.y, b), hlx_mul(a.z, b), hlx_mul(a.w, b));
    return r;
}

vec4 pos0_4(vec4 a) { return vec4(hlx_pos0(a.x), hlx_pos0(a.y), hlx_pos0(a.z), hlx_pos0(a.w)); }

// Two vectors of each of n rows.
#define CLEAR(sums, n)                                                           \
    [[unroll]] for (uint r = 0u; r < (n); ++r) {                                 \
        sums[r][0] = vec4(0.0);                                                  \
        sums[r][1] = vec4(0.0);                                                  \
    }

// Row r of this thread within the tile.
uint thread_tx() { return gl_LocalInvocationIndex & 7u; }
uint thread_ty() { return (gl_LocalInvocationIndex >> 3) % THREADS_Y; }
#define ROW(r) (first_row + 4u * (r))
uint thread_first_row() {
    return 4u * THREAD_ROWS * (thread_ty() >> 2) + (thread_ty() & 3u);
}

#define NATURAL(slot) (slot)
#define COLUMN_OF_SLOT(slot) (4u * ((slot) & 7u) + ((slot) >> 3))

// Row r of this thread, columns 4 u .. 4 u + 3, of a tile in shared memory.
#define SHARED_ROW(tile, first, r, u) tile[(first) + ROW(r) * UNITS + ((u) ^ (ROW(r) & 7u))]

// The terms of the columns d = 4 u .. 4 u + 3 of s[r][c] = chain over d of rows times columns;
// ROW_VECTOR(r, u) gives a row's. A chain that ends as -0 may stay so here: exp(s scale - m) and
// p (dp - delta) are the same except for the sign of a zero, which adds nothing to the sums.
#define CONTRACT_UNIT(s, ROW_VECTOR, columns, columns_first, u, UNROLLED)        \
    {                                                                            \
        vec4 y[4];                                                               \
        UNROLLED for (uint c = 0u; c < 4u; ++c)                                  \
            y[c] = columns[(columns_first) + (8u * c + tx) * UNITS + ((u) ^ tx)]; \
        UNROLLED for (uint r = 0u; r < THREAD_ROWS; ++r) {                       \
            vec4 x = ROW_VECTOR(r, u);                                           \
            UNROLLED for (uint k = 0u; k < 4u; ++k)                              \
                UNROLLED for (uint c = 0u; c < 4u; ++c)                          \
                    s[r][c] = hlx_fma(x[k], y[c][k], s[r][c]);                   \
        }                                                                        \
    }
// The place of a thread's weights of row `row`, columns 4 x .. 4 x + 3.
#define WEIGHT(row, x) ((row) * 8u + ((x) ^ ((row) & 7u)))

// The terms of the columns 4 j .. 4 j + 3 of the accumulators: STEP(r, v, x, y, column) adds weight x of
// a column, times its vector y, to vector tx + 8 v of row r.
#define ACCUMULATE_UNIT(STEP, weights, weights_first, columns, columns_first, j, UNROLLED) \
    {                                                                            \
        vec4 x[THREAD_ROWS];                                                     \
        UNROLLED for (uint r = 0u; r < THREAD_ROWS; ++r)                         \
            x[r] = weights[(weights_first) + WEIGHT(ROW(r), j)];                 \
        UNROLLED for (uint c = 0u; c < 4u; ++c)                                  \
            UNROLLED for (uint v = 0u; v < 2u; ++v)                              \
                if (8u * v < UNITS) {                                            \
                    vec4 y = columns[(columns_first) + (8u * c + (j)) * UNITS + (tx ^ (j)) + 8u * v]; \
                    UNROLLED for (uint r = 0u; r < THREAD_ROWS; ++r)             \
                        STEP(r, v, x[r][c], y, 4u * (j) + c)                     \
                }                                                                \
    }
#define ACCUMULATE_BY(STEP, weights, weights_first, columns, columns_first)      \
    if (NATIVE) {                                                                \
        [[dont_unroll]] for (uint j0 = 0u; j0 < 8u; j0 += UNROLL_J)              \
            [[unroll]] for (uint i = 0u; i < UNROLL_J; ++i)                      \
                ACCUMULATE_UNIT(STEP, weights, weights_first, columns, columns_first, j0 + i, [[unroll]]) \
    } else {                                                                     \
        for (uint j = 0u; j < 8u; ++j)                                           \
            ACCUMULATE_UNIT(STEP, weights, weights_first, columns, columns_first, j, ) \
    }
