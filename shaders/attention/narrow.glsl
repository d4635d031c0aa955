// Tiles for heads of at most 64 columns, which are in shared memory as a whole.
//
// A tile's row is UNITS vectors of four columns, zero past D. Two kinds of tile are in shared
// memory: ROWS rows in their order (queries in the forward and in dQ, keys in dK and dV), and a
// block of 32 "columns" (keys, or queries), of which number 4 x + c lies in slot 8 c + x. A
// vector's place within its row is permuted by an exclusive or with the row's or slot's lowest
// bits, so that eight neighbouring threads always access eight different bank groups.
//
// Thread (tx, ty) = (thread % 8, thread / 8) holds THREAD_ROWS rows of the 64 x 32 product, four
// apart, columns 4 tx .. 4 tx + 3, and of the accumulator the vectors tx and tx + 8. 32
// consecutive threads hold 4 THREAD_ROWS consecutive rows.
//
// The including file defines THREAD_ROWS and THREADS_Y.
#extension GL_EXT_control_flow_attributes : require

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

layout(constant_id = 0) const uint D = 64;
// D is a multiple of four: whole vectors are loaded and stored.
layout(constant_id = 1) const bool VECTOR = false;

const uint UNITS = D > 32u ? 16u : 8u;

layout(push_constant) uniform Push {
    uint heads;  // of all sequences together: B * H
    uint heads_a_sequence;
    uint time;
    float scale;
#ifdef STORED_DS
    uint first_head;  // of the heads whose ds is stored at a time: push.heads of them
#endif
} push;

// Loops are unrolled where an fma is one instruction; emulated ones would fill the program.
#define NATIVE (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u)
#define EACH(i, n, BODY)                                    \
    if (NATIVE) {                                           \
        [[unroll]] for (uint i = 0u; i < (n); ++i) { BODY } \
    } else {                                                \
        for (uint i = 0u; i < (n); ++i) { BODY }            \
    }

// Element offset of [sequence, t = 0, which, head, d = 0] in qkv [B, T, 3, H, D], and of
// [sequence, 0, head, 0] in o [B, T, H, D]; a step of t is QKV_STRIDE or O_STRIDE.
#define O_STRIDE (push.heads_a_sequence * D)
#define QKV_STRIDE (3u * O_STRIDE)
uint qkv_base(uint head, uint which) {
    uint sequence = head / push.heads_a_sequence;
    return sequence * push.time * QKV_STRIDE + which * O_STRIDE
         + (head % push.heads_a_sequence) * D;
}
uint o_base(uint head) {
    return head / push.heads_a_sequence * push.time * O_STRIDE
         + (head % push.heads_a_sequence) * D;
}

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

// Row r of this thread within the tile.
uint thread_tx() { return gl_LocalInvocationIndex & 7u; }
uint thread_ty() { return (gl_LocalInvocationIndex >> 3) % THREADS_Y; }
#define ROW(r) (first_row + 4u * (r))
uint thread_first_row() {
    return 4u * THREAD_ROWS * (thread_ty() >> 2) + (thread_ty() & 3u);
}

// Four columns of a row from element `at`, which is column d; zero past D.
#define DEFINE_FETCH(fetch, scalars, vectors)                                    \
    vec4 fetch(uint at, uint d) {                                                \
        vec4 v = vec4(0.0);                                                      \
        if (VECTOR) {                                                            \
            if (d < D) v = vectors[at >> 2];                                     \
        } else {                                                                 \
            for (uint i = 0u; i < 4u; ++i)                                       \
                if (d + i < D) v[i] = scalars[at + i];                           \
        }                                                                        \
        return v;                                                                \
    }

#define NATURAL(slot) (slot)
#define COLUMN_OF_SLOT(slot) (4u * ((slot) & 7u) + ((slot) >> 3))

// n rows from t0 on into tile[first ..]. Rows past the end repeat the last one: whoever would
// use them is masked or not stored.
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

// Row r of this thread, columns 4 u .. 4 u + 3, of a tile in shared memory.
#define SHARED_ROW(tile, first, r, u) tile[(first) + ROW(r) * UNITS + ((u) ^ (ROW(r) & 7u))]

// The terms of the columns d = 4 u .. 4 u + 3 of s[r][c] = chain over d of rows times columns;
// ROW_VECTOR(r, u) gives a row's. A chain that ends as -0 may stay so here: exp(s scale - m) and
// p (dp - delta) are the same but for the sign of a zero, which adds nothing to the sums.
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

// exp(x) for x <= 0 or NaN: no score exceeds its row's maximum.
float exp_below(float x) {
    precise float y = hlx_exp_core(x);
    y = x < HLX_EXP_LOW ? 0.0 : y;
    return hlx_isnan(x) ? x : y;
}

// The place of a thread's weights of row `row`, columns 4 x .. 4 x + 3.
#define WEIGHT(row, x) ((row) * 8u + ((x) ^ ((row) & 7u)))

// sums[r][v] (vector tx + 8 v of row r) goes on over the columns 4 j .. 4 j + 3.
#define ACCUMULATE_UNIT(sums, weights, weights_first, columns, columns_first, j, UNROLLED) \
    {                                                                            \
        vec4 x[THREAD_ROWS];                                                     \
        UNROLLED for (uint r = 0u; r < THREAD_ROWS; ++r)                         \
            x[r] = weights[(weights_first) + WEIGHT(ROW(r), j)];                 \
        UNROLLED for (uint c = 0u; c < 4u; ++c)                                  \
            UNROLLED for (uint v = 0u; v < 2u; ++v)                              \
                if (8u * v < UNITS) {                                            \
                    vec4 y = columns[(columns_first) + (8u * c + (j)) * UNITS + (tx ^ (j)) + 8u * v]; \
                    UNROLLED for (uint r = 0u; r < THREAD_ROWS; ++r)             \
                        sums[r][v] = fma4(x[r][c], y, sums[r][v]);               \
                }                                                                \
    }
#define ACCUMULATE(sums, weights, weights_first, columns, columns_first)         \
    if (NATIVE) {                                                                \
        [[dont_unroll]] for (uint j0 = 0u; j0 < 8u; j0 += UNROLL_J)              \
            [[unroll]] for (uint i = 0u; i < UNROLL_J; ++i)                      \
                ACCUMULATE_UNIT(sums, weights, weights_first, columns, columns_first, j0 + i, [[unroll]]) \
    } else {                                                                     \
        for (uint j = 0u; j < 8u; ++j)                                           \
            ACCUMULATE_UNIT(sums, weights, weights_first, columns, columns_first, j, ) \
    }

// Writes one vector, which is column d, where it exists.
#define DEFINE_STORE(store, scalars, vectors)                                    \
    void store(uint at, uint d, vec4 value) {                                    \
        if (VECTOR) {                                                            \
            if (d < D) vectors[at >> 2] = value;                                 \
        } else {                                                                 \
            for (uint i = 0u; i < 4u; ++i)                                       \
                if (d + i < D) scalars[at + i] = value[i];                       \
        }                                                                        \
    }
