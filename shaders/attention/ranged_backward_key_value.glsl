// Attention over ranges, dK and dV, with p and ds as in ranged_backward_query.glsl:
//   dk[j] = (sum_i ds[i, j] q[i]) * scale; dv[j] = sum_i w[i, j] do[i], w = p, dropped as there
// over the query heads of the key's head in order, and in each over the queries that see j in order:
// one chain. Scores and dp are chains over d. dk, dv: [B, S, H / G, D]; do: [B, T, H, D];
// stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T].
#define SIDES 2
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#include "ranged.glsl"
#include "ranged_rows.glsl"

READ_ROWS(0, readonly, Q, fetch_q, q_scalars, q_vectors)
READ_ROWS(1, readonly, K, fetch_k, k_scalars, k_vectors)
READ_ROWS(2, readonly, V, fetch_v, v_scalars, v_vectors)
layout(set = 0, binding = 3) readonly buffer QueryRanges { uvec4 query_ranges[]; };
layout(set = 0, binding = 4) readonly buffer KeyRanges { uvec4 key_ranges[]; };
layout(set = 0, binding = 5) readonly buffer Counter { uint step_and_base[]; };
layout(set = 0, binding = 6) readonly buffer Stats { float stats[]; };
READ_ROWS(7, readonly, DO, fetch_d_o, d_o, d_o_vectors)
layout(set = 0, binding = 8) readonly buffer Delta { float delta[]; };
WRITE_ROWS(9, writeonly, DK, store_dk, dk, dk_vectors)
WRITE_ROWS(10, writeonly, DV, store_dv, dv, dv_vectors)

// 64 columns of the block's queries, then of their do.
shared vec4 columns[2 * COLS * UNITS];
// w, for dV; p (1 - t t), with the sign of a minus where it is dropped, then ds, for dK.
shared vec4 weights[2 * ROWS * 8];

#define KEY_OR_VALUE(r, u) \
    (side == 0u ? fetch_k(rows_at[r] + first_d, first_d) : fetch_v(rows_at[r] + first_d, first_d))
#define LOAD_QUERIES(chunk)                                                      \
    LOAD_COLUMNS(columns, 0u, fetch_q, q_base(sample_idx, head), push.q_position, query0, \
                 push.queries - 1u, chunk)                                       \
    LOAD_COLUMNS(columns, COLS * UNITS, fetch_d_o, o_base(sample_idx, head), O_STRIDE, query0, \
                 push.queries - 1u, chunk)

void main() {
    // Half the threads compute s, p and dv, the other half dp, ds and dk.
    uint side = gl_LocalInvocationIndex / (8u * THREADS_Y);
    uint tx = thread_tx();
    uint first_row = thread_first_row();
    // The first tiles of all heads, which most queries see if attention is causal, go first.
    uint tiles = (push.keys + ROWS - 1u) / ROWS;
    uint key_heads = push.heads / push.group;
    uint all_heads = push.batch * key_heads;
    uint tile = hlx_group() / all_heads;
    if (tile >= tiles) return;
    uint sample_idx = hlx_group() % all_heads / key_heads;
    uint key_head = hlx_group() % key_heads;
    uint row0 = tile * ROWS;
    uint n = min(ROWS, push.keys - row0);
    LOAD_RANGES(key_ranges, sample_idx * push.keys + row0, n)
    find_segment(0u, n, false);

    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    uint rows_at[THREAD_ROWS];
    uint low[THREAD_ROWS];
    uint high[THREAD_ROWS];
    precise vec4 sums[THREAD_ROWS][2 * CHUNKS];
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {
        uint t = min(row0 + ROW(r), push.keys - 1u);
        uint head = key_head * push.group;
        rows_at[r] = side == 0u ? k_base(sample_idx, head) + t * push.k_position
                                : v_base(sample_idx, head) + t * push.v_position;
        [[unroll]] for (uint v = 0u; v < 2u * CHUNKS; ++v) sums[r][v] = vec4(0.0);
    }

    for (uint head = key_head * push.group; head < (key_head + 1u) * push.group; ++head)
        for (uint query0 = first_column; query0 < end_column; query0 += COLS) {
            bool edge = query0 < inner_begin || query0 + COLS > inner_end;
            SEEN_COLUMNS(0u, query0)
            // Of the thread's four queries: m and 1 / l, or delta.
            precise vec4 a;
            precise vec4 b;
            [[unroll]] for (uint c = 0u; c < 4u; ++c) {
                uint at = stats_base(sample_idx, head) + min(query0 + 4u * tx + c, push.queries - 1u);
                if (side == 0u) {
                    a[c] = stats[2u * at];
                    b[c] = stats[2u * at + 1u];
                } else {
                    a[c] = delta[at];
                }
            }
            precise vec4 s[THREAD_ROWS];
            [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) s[r] = vec4(0.0);
            for (uint chunk = 0u; chunk < CHUNKS && 64u * chunk < D; ++chunk) {
                barrier();
                LOAD_QUERIES(chunk)
                barrier();
                if (busy) CONTRACT_CHUNK(s, KEY_OR_VALUE, columns, side * COLS * UNITS, chunk)
            }
            if (busy && side == 0u) {
                EACH(r, THREAD_ROWS,
                    precise vec4 slanted;
                    EACH(c, 4u,
                        precise float t;
                        precise float x = hlx_sub(score(s[r][c], t), a[c]);
                        s[r][c] = hlx_mul(exp_below(x), b[c]);
                        slanted[c] = CAPPED ? hlx_mul(s[r][c], hlx_fma(-t, t, 1.0)) : s[r][c];
                        if (DROPPED) {
                            uvec4 range = tile_ranges[ROW(r)];
                            uint query = min(query0 + 4u * tx + c, push.queries - 1u);
                            uint position = query_ranges[sample_idx * push.queries + query].w;
                            uint place = range.w - range.x;
                            bool kept = is_kept(draw4(key, head, position, place / 4u)[place % 4u]);
                            s[r][c] = kept ? hlx_mul(s[r][c], push.factor) : 0.0;
                            if (!kept) slanted[c] = uintBitsToFloat(floatBitsToUint(slanted[c]) | HLX_SIGN);
                        }
                    )
                    weights[WEIGHT(ROW(r), tx)] = s[r];
                    if (CAPPED || DROPPED) weights[ROWS * 8u + WEIGHT(ROW(r), tx)] = slanted;
                )
            }
            barrier();
            if (busy && side == 1u) {
                EACH(r, THREAD_ROWS,
                    uint first = CAPPED || DROPPED ? ROWS * 8u : 0u;
                    vec4 p = weights[first + WEIGHT(ROW(r), tx)];
                    EACH(c, 4u,
                        precise float d = s[r][c];
                        precise float weight = p[c];
                        if (DROPPED) {
                            bool kept = (floatBitsToUint(p[c]) & HLX_SIGN) == 0u;
                            d = kept ? hlx_mul(d, push.factor) : 0.0;
                            weight = hlx_abs(weight);
                        }
                        s[r][c] = hlx_mul(weight, hlx_sub(d, a[c]));
                    )
                    weights[ROWS * 8u + WEIGHT(ROW(r), tx)] = s[r];
                )
            }
            barrier();
            EACH(chunk, CHUNKS,
                if (64u * chunk < D) {
                    if (CHUNKS > 1) {
                        barrier();
                        LOAD_QUERIES(chunk)
                        barrier();
                    }
                    if (busy)
                        ACCUMULATE_CHUNK(edge, weights, side * ROWS * 8u, columns,
                                         (1u - side) * COLS * UNITS, chunk)
                }
            )
        }

    EACH(r, THREAD_ROWS,
        if (ROW(r) < n) {
            EACH(v, 2u * CHUNKS,
                uint d = 4u * (tx + 8u * v);
                if (8u * v < UNITS * CHUNKS && d < D) {
                    uint at = ((sample_idx * push.keys + row0 + ROW(r)) * key_heads + key_head) * D + d;
                    vec4 value = pos0_4(sums[r][v]);
                    if (side == 0u) store_dv(at, d, value);
                    else store_dk(at, d, mul4(value, push.scale));
                }
            )
        }
    )
}
