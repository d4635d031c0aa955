// Causal attention backward, dK and dV, for heads of at most 64 columns; the formulas and the order
// of every sum are those of ranged_backward_key_value.glsl. Blocks of 32 queries and do pass by
// the keys and values. ds is stored for dQ (backward_query_stored.comp). The including file gives the
// tile (narrow.glsl).
#define SIDES 2
#define STORED_DS
#include "../include/arith.glsl"
#include "../include/math.glsl"
#ifdef DROPPED
#include "../include/random.glsl"
#endif
#include "narrow.glsl"

READ_ROWS(0, readonly, QKV, fetch_qkv, qkv, qkv_vectors)
layout(set = 0, binding = 1) readonly buffer Stats { float stats[]; };
READ_ROWS(2, readonly, DO, fetch_d_o, d_o, d_o_vectors)
layout(set = 0, binding = 3) readonly buffer Delta { float delta[]; };
WRITE_ROWS(4, writeonly, DQKV, store_dqkv, dqkv, dqkv_vectors)

layout(set = 0, binding = 5) writeonly buffer DS { vec4 stored_ds[]; };
#ifdef DROPPED
layout(set = 0, binding = 6) readonly buffer Counter { uint step_and_base[]; };
#endif

#ifdef ROWS_FROM_MEMORY
// Eight neighbouring threads read the same vector, and the tile stays in the first cache: a third
// of the shared memory is then left for other workgroups (1.1 times as fast on an H200).
#define KEY_OR_VALUE(r, u) fetch_qkv(rows_at[r] + 4u * (u), 4u * (u))
// exp_below without its test for NaN, which the exact product with 2^n lets through (0.7% faster
// here on an H200, 0.5% slower in the forward).
float weight_exp(float x) {
    int n;
    precise float r = hlx_exp_reduce(x, n);
    precise float y = hlx_add(1.0, hlx_expm1_core(r));
    y = hlx_mul(y, uintBitsToFloat(uint(n + 127) << 23));
    return x < HLX_EXP_LOW ? 0.0 : y;
}
#else
#define weight_exp exp_below
// The tile's keys, then its values.
shared vec4 rows[2 * ROWS * UNITS];
#define KEY_OR_VALUE(r, u) SHARED_ROW(rows, side * ROWS * UNITS, r, u)
#endif
// The block's queries, then their do; p, then ds.
shared vec4 columns[2 * COLS * UNITS];
shared vec4 weights[2 * ROWS * 8];
#ifdef DROPPED
// Of four neighbouring keys and a query: bit k is set if key k keeps its weight.
shared uvec4 kept[ROWS * 2];
#define KEEPS(r, c) ((kept[ROW(r) / 4u * 8u + tx][c] >> ROW(r) % 4u & 1u) != 0u)
#define DROP(r, c, x) (KEEPS(r, c) ? hlx_mul(x, push.factor) : 0.0)
// p lies in the place of ds until that is there.
#define P(r) weights[ROWS * 8u + WEIGHT(ROW(r), tx)]
#define STORE_WEIGHTS(r)                                                         \
    P(r) = s[r];                                                                 \
    EACH(c, 4u, s[r][c] = DROP(r, c, s[r][c]);)                                  \
    weights[WEIGHT(ROW(r), tx)] = s[r];
#else
#define DROP(r, c, x) x
#define P(r) weights[WEIGHT(ROW(r), tx)]
#define STORE_WEIGHTS(r) P(r) = s[r];
#endif

void main() {
    // Half the threads compute s, p and dv, the other half dp, ds and dk.
    uint side = gl_LocalInvocationIndex / (8u * THREADS_Y);
    uint tx = thread_tx();
    uint first_row = thread_first_row();
    uint tiles = (push.time + ROWS - 1u) / ROWS;
    uint stored_head = hlx_group() / tiles;
    if (stored_head >= push.heads) return;
    uint head = push.first_head + stored_head;
    uint row0 = hlx_group() % tiles * ROWS;
    // The first row of these 32 threads.
    uint own_row0 = row0 + 4u * THREAD_ROWS * (thread_ty() >> 2);

#ifdef ROWS_FROM_MEMORY
    uint rows_at[THREAD_ROWS];
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r)
        rows_at[r] = qkv_base(head, 1u + side) + min(row0 + ROW(r), push.time - 1u) * QKV_STRIDE;
#else
    LOAD_TILE(rows, 0u, ROWS, NATURAL, fetch_qkv, qkv_base(head, 1u), QKV_STRIDE, row0)
    LOAD_TILE(rows, ROWS * UNITS, ROWS, NATURAL, fetch_qkv, qkv_base(head, 2u), QKV_STRIDE, row0)
#endif

    precise vec4 sums[THREAD_ROWS][2];
    CLEAR(sums, THREAD_ROWS)
#ifdef DROPPED
    uvec2 draws = HEAD_DRAW_KEY(step_and_base, head);
#endif
    uint first_query = row0 / COLS * COLS;
    for (uint query0 = first_query; query0 < push.time; query0 += COLS) {
        barrier();
        LOAD_TILE(columns, 0u, COLS, COLUMN_OF_SLOT, fetch_qkv, qkv_base(head, 0u), QKV_STRIDE, query0)
        LOAD_TILE(columns, COLS * UNITS, COLS, COLUMN_OF_SLOT, fetch_d_o, o_base(head), O_STRIDE, query0)
        // Of the thread's four queries: m and 1 / l, or delta.
        precise vec4 a;
        precise vec4 b;
        [[unroll]] for (uint c = 0u; c < 4u; ++c) {
            uint at = head * push.time + min(query0 + 4u * tx + c, push.time - 1u);
            if (side == 0u) {
                a[c] = stats[2u * at];
                b[c] = stats[2u * at + 1u];
            } else {
                a[c] = delta[at];
            }
        }
        bool edge = query0 < row0 + ROWS || query0 + COLS > push.time;
#define SEES(r, column) (row0 + ROW(r) <= query0 + (column) && query0 + (column) < push.time)
#ifdef DROPPED
        [[unroll]] for (uint i = 0u; i < ROWS / 4u * COLS / THREADS; ++i) {
            uint at = gl_LocalInvocationIndex + i * THREADS;
            uvec4 words = draw4(draws, head % push.heads_a_sequence, query0 + at % COLS,
                                row0 / 4u + at / COLS);
            uvec4 bits = uvec4(is_kept(words.x), is_kept(words.y), is_kept(words.z), is_kept(words.w));
            kept[at / 4u][at % 4u] = bits.x | bits.y << 1 | bits.z << 2 | bits.w << 3;
        }
#endif
        barrier();
        precise vec4 s[THREAD_ROWS];
        [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) s[r] = vec4(0.0);
        CONTRACT(s, KEY_OR_VALUE, columns, side * COLS * UNITS)
        if (side == 0u) {
            EACH(r, THREAD_ROWS,
                EACH(c, 4u,
                    s[r][c] = hlx_mul(weight_exp(hlx_sub(hlx_mul(s[r][c], push.scale), a[c])), b[c]);
                )
                STORE_WEIGHTS(r)
            )
        }
        barrier();
        if (side == 1u) {
            EACH(r, THREAD_ROWS,
                vec4 p = P(r);
                EACH(c, 4u, s[r][c] = hlx_mul(p[c], hlx_sub(DROP(r, c, s[r][c]), a[c]));)
                weights[ROWS * 8u + WEIGHT(ROW(r), tx)] = s[r];
                stored_ds[stored_at(stored_head, query0 + 4u * tx, row0 + ROW(r))] = s[r];
            )
        }
        barrier();
        uint first_j = (max(own_row0, query0) - query0) / 4u;
        uint end_j = min(8u, (push.time - query0 + 3u) / 4u);
        ACCUMULATE(edge, first_j, end_j, weights, side * ROWS * 8u, columns, (1u - side) * COLS * UNITS)
    }

    EACH(r, THREAD_ROWS,
        uint t = row0 + ROW(r);
        if (t < push.time) {
            EACH(v, 2u,
                if (8u * v < UNITS) {
                    uint d = 4u * (tx + 8u * v);
                    vec4 value = pos0_4(sums[r][v]);
                    if (side == 1u) value = mul4(value, push.scale);
                    store_dqkv(qkv_base(head, 2u - side) + t * QKV_STRIDE + d, d, value);
                }
            )
        }
    )
}
