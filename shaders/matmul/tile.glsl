// A workgroup's tile of a product: how it is cut, its shared memory, and the terms of a step.
//
// The including file defines the tile (product.glsl says how), the constants TRANS_A and TRANS_B,
// push.k, the terms of a chain, and then, in main, the thread's unit and the tile's corner.
#define THREADS ((TILE_M / THREAD_M) * (TILE_N / THREAD_N))
#define GROUPS_M (THREAD_M / 4)
#define GROUPS_N (THREAD_N / 4)
#define WARPS_N (TILE_N / (WARP_N * THREAD_N))
// Vectors of A and of B that a thread moves in a step. With FEWER_VECTORS a tile has less of them than threads, and several
// threads move the same.
#define LOADS_OF(tile) ((tile * K_STEP / 4 + THREADS - 1) / THREADS)
#define LOADS_A LOADS_OF(TILE_M)
#define LOADS_B LOADS_OF(TILE_N)
// A shared row in vectors: one of padding, so that columns written transposed spread over banks.
#define ROW_A (TILE_M / 4 + 1)
#define ROW_B (TILE_N / 4 + 1)

layout(local_size_x = THREADS) in;

shared vec4 a_tile[2][K_STEP * ROW_A];
shared vec4 b_tile[2][K_STEP * ROW_B];

// A vector of an operand's tile: `outer` along M or N, `k` along K. Of the two, the direction in
// which memory is contiguous goes in fours.
struct Place {
    uint outer, k;
};

// Where a thread's vector `load` lies. Neighbouring threads follow the contiguous direction.
Place place_of(uint load, bool k_contiguous, uint tile) {
    uint vector = gl_LocalInvocationIndex + load * THREADS;
#ifdef FEWER_VECTORS
    vector %= tile * K_STEP / 4u;
#endif
    if (k_contiguous) {
        uint row = vector / LANES;
        return Place(row % tile, 4u * (vector % LANES + LANES * (row / tile)));
    }
    return Place(4u * (vector % (tile / 4u)), vector / (tile / 4u));
}

// Element offset of a place in an operand, from the edge at the latest.
uint plain_offset(Place p, uint first, bool k_contiguous, uint outers, uint terms) {
    return k_contiguous ? min(first + p.outer, outers - 1u) * terms + p.k
                        : p.k * outers + min(first + p.outer, outers - 4u);
}

// How many of four elements from `at` lie below `end`.
uint left_of(uint at, uint end) {
    return at < end ? min(end - at, 4u) : 0u;
}

// A vector whose elements may lie past an edge: 0 there. `name` is a or b.
#define LOAD_TESTED(v, name, vectors, whole, p, base, first, k_first, k_contiguous, outers)       \
    {                                                                                             \
        uint outer = (first) + (p).outer;                                                         \
        uint k = (k_first) + (p).k;                                                               \
        uint row = (k_contiguous) ? outer : k;                                                    \
        uint rows = (k_contiguous) ? (outers) : push.k;                                           \
        uint column = (k_contiguous) ? k : outer;                                                 \
        uint columns = (k_contiguous) ? push.k : (outers);                                        \
        uint left = row < rows ? left_of(column, columns) : 0u;                                   \
        uint at = (base) + row * columns + column;                                                \
        v = vec4(0.0);                                                                            \
        if (whole) {                                                                              \
            if (left > 0u) v = vectors[at >> 2];                                                  \
        } else {                                                                                  \
            [[unroll]] for (uint i = 0u; i < 4u; ++i) if (i < left) v[i] = name[at + i];          \
        }                                                                                         \
    }

// Declares the thread's first unit of four rows, and of four columns, in the tile.
#define DECLARE_UNIT                                                                              \
    uint lane = gl_LocalInvocationIndex & 31u;                                                    \
    uint warp = gl_LocalInvocationIndex >> 5;                                                     \
    uvec2 unit = uvec2(warp / WARPS_N * (WARP_M * GROUPS_M) + lane / WARP_N,                      \
                       warp % WARPS_N * (WARP_N * GROUPS_N) + lane % WARP_N);

// Stores v as four elements of x from `at` on, the i-th of which counts where first + i < end. All or none count where the
// buffer has whole vectors.
#define HLX_STORE_FOUR(i, whole, x, at, first, end, v) \
    if (whole) { \
        if ((first) < (end)) x##_vectors[(at) >> 2] = v; \
    } else { \
        [[unroll]] for (uint i = 0u; i < 4u; ++i) if ((first) + i < (end)) x[(at) + i] = v[i]; \
    }

// The thread's row i and its columns' vector g, of C.
#define ROW_OF(i) (corner.x + 4u * (unit.x + ((i) / 4u) * WARP_M) + (i) % 4u)
#define COLUMN_OF(g) (corner.y + 4u * (unit.y + (g) * WARP_N))

// Stores one vector in shared memory, transposed where it runs along k.
#define KEEP_ONE(tile, row, p, k_contiguous, v)                                                   \
    if (k_contiguous) {                                                                           \
        [[unroll]] for (uint i = 0u; i < 4u; ++i)                                                 \
            tile[((p).k + i) * row + ((p).outer >> 2)][(p).outer & 3u] = v[i];                    \
    } else {                                                                                      \
        tile[(p).k * row + ((p).outer >> 2)] = v;                                                 \
    }

#define KEEP(half_idx)                                                                       \
    [[unroll]] for (uint l = 0u; l < LOADS_A; ++l) {                                              \
        Place p = place_of(l, !TRANS_A, TILE_M);                                                  \
        KEEP_ONE(a_tile[half_idx], ROW_A, p, !TRANS_A, a_staged[l])                               \
    }                                                                                             \
    [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) {                                              \
        Place p = place_of(l, TRANS_B, TILE_N);                                                   \
        KEEP_ONE(b_tile[half_idx], ROW_B, p, TRANS_B, b_staged[l])                                \
    }

// The terms of a step: each element's chain goes on by K_STEP fma. Columns are walked to and fro,
// so that an operand just used is used again. Written out where an fma is one instruction;
// emulated ones would fill the program.
#define TERMS(half_idx)                                                                           \
    if (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u) {                                         \
        [[unroll]] for (uint k = 0u; k < K_STEP; ++k) {                                           \
            vec4 x[GROUPS_M];                                                                     \
            vec4 y[GROUPS_N];                                                                     \
            [[unroll]] for (uint g = 0u; g < GROUPS_M; ++g)                                       \
                x[g] = a_tile[half_idx][k * ROW_A + unit.x + g * WARP_M];                         \
            [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g)                                       \
                y[g] = b_tile[half_idx][k * ROW_B + unit.y + g * WARP_N];                         \
            [[unroll]] for (uint j = 0u; j < THREAD_N; ++j)                                       \
                [[unroll]] for (uint walked = 0u; walked < THREAD_M; ++walked) {                  \
                    uint i = (j & 1u) == 0u ? walked : THREAD_M - 1u - walked;                    \
                    acc[i][j] = hlx_fma(x[i / 4u][i % 4u], y[j / 4u][j % 4u], acc[i][j]);         \
                }                                                                                 \
        }                                                                                         \
    } else {                                                                                      \
        for (uint k = 0u; k < K_STEP; ++k)                                                        \
            for (uint i = 0u; i < THREAD_M; ++i) {                                                \
                float x = a_tile[half_idx][k * ROW_A + unit.x + (i / 4u) * WARP_M][i % 4u];       \
                for (uint j = 0u; j < THREAD_N; ++j) {                                            \
                    float y = b_tile[half_idx][k * ROW_B + unit.y + (j / 4u) * WARP_N][j % 4u];   \
                    acc[i][j] = hlx_fma(x, y, acc[i][j]);                                         \
                }                                                                                 \
            }                                                                                     \
    }

// All terms of a chain. The including file defines FETCH(k_first), which loads a thread's vectors of the step from there on,
// and FETCH_NEXT(k_first, more), for every step but the first.
#define STEPS(steps)                                                                              \
    if (steps > 0u) {                                                                             \
        FETCH(0u)                                                                                 \
        KEEP(0)                                                                                   \
    }                                                                                             \
    barrier();                                                                                    \
    for (uint step = 0u; step < steps; step += 2u) {                                              \
        FETCH_NEXT((step + 1u) * K_STEP, step + 1u < steps)                                       \
        TERMS(0)                                                                                  \
        if (!EVEN && step + 1u == steps) break;                                                   \
        KEEP(1)                                                                                   \
        barrier();                                                                                \
        FETCH_NEXT((step + 2u) * K_STEP, step + 2u < steps)                                       \
        TERMS(1)                                                                                  \
        KEEP(0)                                                                                   \
        barrier();                                                                                \
    }
