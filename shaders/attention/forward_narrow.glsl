// Causal attention forward for heads of at most 64 columns; the formulas and the order of every
// sum are those of ranged_forward.glsl. Blocks of 32 keys and their values pass by the queries. The
// including file gives the tile (narrow.glsl), DROPPED where weights are dropped (after their sum, as in
// ranged_forward.glsl), and STAGED where workgroups are many: an H200 gives
// those of a multiprocessor 52 KiB of shared memory together, so three of 16 KiB run where one of
// 43 KiB would. Values then follow their keys in the same place, and queries pass by halves, block
// after block, where the weights are later.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#ifdef DROPPED
#include "../include/random.glsl"
#endif
#include "narrow.glsl"

READ_ROWS(0, readonly, QKV, fetch_qkv, qkv, qkv_vectors)
WRITE_ROWS(1, writeonly, O, store_o, o, o_vectors)
layout(set = 0, binding = 2) writeonly buffer Stats { float stats[]; };
#ifdef DROPPED
layout(set = 0, binding = 3) readonly buffer Counter { uint step_and_base[]; };
#endif

#ifdef STAGED
shared vec4 columns[COLS * UNITS];
#define KEYS columns
#define VALUES columns
// Eight vectors of each row: half its query; eight threads' maxima; its weights; at the end its l.
shared vec4 rows[ROWS * 8];
#define WEIGHTS rows
#define TOPS(row) (8u * (row))
#define ROW_TOPS rows
#define QUERY(r, u) rows[ROW(r) * 8u + (((u) ^ ROW(r)) & 7u)]
#define LOAD_QUERIES(first_unit)                                                 \
    [[unroll]] for (uint i = 0u; i < ROWS * 8u / THREADS; ++i) {                 \
        uint at = gl_LocalInvocationIndex + i * THREADS;                         \
        uint row = at / 8u;                                                      \
        uint t = min(row0 + row, push.time - 1u);                                \
        uint d = 4u * (first_unit) + 4u * (at % 8u);                             \
        rows[at ^ (row & 7u)] = fetch_qkv(qkv_base(head, 0u) + t * QKV_STRIDE + d, d); \
    }
#else
shared vec4 queries[ROWS * UNITS];
#define QUERY(r, u) SHARED_ROW(queries, 0u, r, u)
shared vec4 keys[COLS * UNITS];
shared vec4 values[COLS * UNITS];
shared vec4 weights[ROWS * 8];
#define KEYS keys
#define VALUES values
#define WEIGHTS weights
// Eight threads' maxima of each row; at the end each row's l.
shared vec4 tops[ROWS * 2];
#define ROW_TOPS tops
#define TOPS(row) (2u * (row))
#endif

void main() {
    uint tx = thread_tx();
    uint first_row = thread_first_row();
    // The tiles with most keys of all heads go first, so that the last to finish are short.
    uint tiles = (push.time + ROWS - 1u) / ROWS;
    uint tile = hlx_group() / push.heads;
    if (tile >= tiles) return;
    uint head = hlx_group() % push.heads;
    uint row0 = (tiles - 1u - tile) * ROWS;
    // The first and the last row of these 32 threads.
    uint own_row0 = row0 + 4u * THREAD_ROWS * (thread_ty() >> 2);
    uint last_row = own_row0 + 4u * THREAD_ROWS - 1u;

#ifndef STAGED
    LOAD_TILE(queries, 0u, ROWS, NATURAL, fetch_qkv, qkv_base(head, 0u), QKV_STRIDE, row0)
#endif

    precise float m[THREAD_ROWS];
    precise vec4 sums[THREAD_ROWS][2];
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
        m[r] = uintBitsToFloat(0xff800000u);
        sums[r][0] = vec4(0.0);
        sums[r][1] = vec4(0.0);
    }
#ifdef DROPPED
    uvec2 draws = HEAD_DRAW_KEY(step_and_base, head);
#endif
    // Each thread sums l of one of its rows.
    uint own = tx % THREAD_ROWS;
    precise float l = 0.0;

    uint end = min(push.time, row0 + ROWS);
    for (uint key0 = 0u; key0 < end; key0 += COLS) {
        bool busy = key0 <= last_row;
        bool edge = key0 + COLS > own_row0 + 1u;
#define SEES(r, column) (key0 + (column) <= row0 + ROW(r))
        barrier();
        LOAD_TILE(KEYS, 0u, COLS, COLUMN_OF_SLOT, fetch_qkv, qkv_base(head, 1u), QKV_STRIDE, key0)
#ifdef STAGED
        LOAD_QUERIES(0u)
#else
        LOAD_TILE(VALUES, 0u, COLS, COLUMN_OF_SLOT, fetch_qkv, qkv_base(head, 2u), QKV_STRIDE, key0)
#endif
        barrier();
        precise vec4 s[THREAD_ROWS];
        precise float top[THREAD_ROWS];
        [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) s[r] = vec4(0.0);
#ifdef STAGED
        if (busy) {
            CONTRACT_PART(s, QUERY, KEYS, 0u, 0u, 8u)
        }
        if (UNITS > 8u) {
            barrier();
            LOAD_QUERIES(8u)
            barrier();
            if (busy) {
                CONTRACT_PART(s, QUERY, KEYS, 0u, 8u, 16u)
            }
        }
        barrier();
        LOAD_TILE(VALUES, 0u, COLS, COLUMN_OF_SLOT, fetch_qkv, qkv_base(head, 2u), QKV_STRIDE, key0)
#endif
        if (busy) {
#ifndef STAGED
            CONTRACT(s, QUERY, KEYS, 0u)
#endif
            EACH(r, THREAD_ROWS, s[r] = mul4(s[r], push.scale);)
            if (edge) {
                [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r)
                    [[unroll]] for (uint c = 0u; c < 4u; ++c)
                        if (!SEES(r, 4u * tx + c)) s[r][c] = uintBitsToFloat(0xff800000u);
            }
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
                top[r] = hlx_max(hlx_max(s[r].x, s[r].y), hlx_max(s[r].z, s[r].w));
                ROW_TOPS[TOPS(ROW(r)) + (tx >> 2)][tx & 3u] = top[r];
            }
        }
        barrier();
        if (busy) {
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
                JOIN_TOPS(ROW_TOPS, TOPS(ROW(r)))
                top[r] = hlx_max(left, right);
            }
#ifdef STAGED
        }
        barrier();
        if (busy) {
#endif
            precise float own_correction = 0.0;
            EACH(r, THREAD_ROWS,
                MOVE_MAXIMUM(m[r], top[r])
                if (r == own) own_correction = correction;
                sums[r][0] = mul4(sums[r][0], correction);
                if (UNITS > 8u) sums[r][1] = mul4(sums[r][1], correction);
                EACH(c, 4u, s[r][c] = exp_below(hlx_sub(s[r][c], now));)
            )
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) WEIGHTS[WEIGHT(ROW(r), tx)] = s[r];
            l = hlx_mul(l, own_correction);
        }
        barrier();
        if (busy) {
            SUM_WEIGHTS(l, WEIGHTS, ROW(own))
#ifdef DROPPED
        }
        barrier();
        if (busy) {
            EACH(r, THREAD_ROWS,
                uvec4 words = draw4(draws, head % push.heads_a_sequence, row0 + ROW(r), key0 / 4u + tx);
                DROP_WEIGHTS(s[r], words)
                WEIGHTS[WEIGHT(ROW(r), tx)] = s[r];
            )
        }
        barrier();
        if (busy) {
#endif
            ACCUMULATE(edge, 0u, min(8u, (last_row - key0) / 4u + 1u), WEIGHTS, 0u, VALUES, 0u)
        }
    }

    barrier();
    uint position = head * push.time + row0;
    if (tx < THREAD_ROWS) {
        ROW_TOPS[TOPS(ROW(own))].x = l;
        precise float m_own = m[0];
        [[unroll]] for (uint r = 1u; r < THREAD_ROWS; ++r)
            if (r == own) m_own = m[r];
        if (row0 + ROW(own) < push.time) {
            stats[2u * (position + ROW(own))] = m_own;
            stats[2u * (position + ROW(own)) + 1u] = hlx_div(1.0, l);
        }
    }
    barrier();
    EACH(r, THREAD_ROWS,
        precise float sum = ROW_TOPS[TOPS(ROW(r))].x;
        uint t = row0 + ROW(r);
        if (t < push.time) {
            EACH(v, 2u,
                if (8u * v < UNITS) {
                    EACH(k, 4u, sums[r][v][k] = hlx_pos0(hlx_div(sums[r][v][k], sum));)
                    uint d = 4u * (tx + 8u * v);
                    store_o(o_base(head) + t * O_STRIDE + d, d, sums[r][v]);
                }
            )
        }
    )
}
