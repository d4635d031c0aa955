// Attention over ranges, the weights of its backward's sums, for blocks of 128 queries and 64 keys of which
// a query sees a key:
//   w[i, j] = p[i, j], or p / (1 - p_dropped) or 0 where weights are dropped; ds[i, j]
// as ranged_backward_query.glsl has p and ds, whose scores and dp are chains over d. Of pairs that do not
// see each other, what stands there is never used (ranged_sum.glsl). With SCORES, of the forward: their scores
// alone, as ranged_forward.glsl has them.
// q, do: [B, H, D, T]; k, v: [B, G, D, S]; stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T];
// w, ds: [stored heads, T, S]; transposed_ds, scores: [stored heads, S, T]. T, S and D are multiples of four.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#include "terms.glsl"

// Scores become cap tanh(s / cap).
layout(constant_id = 2) const bool CAPPED = false;
// Weights are dropped.
layout(constant_id = 3) const bool DROPPED = false;

layout(push_constant) uniform Push {
    uint queries, keys, heads;
    uint group;  // query heads of a key head
    uint first_head;  // of the heads of all samples whose weights are stored
    uint stored_heads;
    float scale, cap, inverse_cap;
    uint seed_low, seed_high, purpose;
    float p;
    float factor;  // 1 / (1 - p)
} push;

layout(set = 0, binding = 0) readonly buffer Q { vec4 q[]; };
layout(set = 0, binding = 1) readonly buffer K { vec4 k[]; };
#ifdef SCORES
layout(set = 0, binding = 2) readonly buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 3) writeonly buffer Scores { vec4 scores[]; };
#else
layout(set = 0, binding = 2) readonly buffer V { vec4 v[]; };
layout(set = 0, binding = 3) readonly buffer DO { vec4 d_o[]; };
layout(set = 0, binding = 4) readonly buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 5) readonly buffer Counter { uint step_and_base[]; };
layout(set = 0, binding = 6) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly buffer Delta { float delta[]; };
layout(set = 0, binding = 8) buffer W { vec4 w[]; };
layout(set = 0, binding = 9) writeonly buffer DS { vec4 ds[]; };
layout(set = 0, binding = 10) writeonly buffer TransposedDS { vec4 transposed_ds[]; };
#endif

#include "score.glsl"
#ifndef SCORES
#include "draws.glsl"

// Which of four neighbouring keys, the first of them `place` behind the document's first, keep their weight.
// A quad that begins before the document wraps around, and its later keys still count from 0.
uvec4 kept_of(uvec2 key, uint head, uint position, uint place) {
    uvec4 words = draw4(key, head, position, place / 4u);
    if (place % 4u != 0u) {
        uvec4 later = draw4(key, head, position, (place + 4u) / 4u);
        uvec4 mixed = words;
        for (uint c = 0u; c < 4u; ++c) {
            uint at = place % 4u + c;
            mixed[c] = at < 4u ? words[at] : later[at - 4u];
        }
        words = mixed;
    }
    return uvec4(is_kept(words.x), is_kept(words.y), is_kept(words.z), is_kept(words.w));
}

#endif
// Whether a weight is p itself, which is read back from where it is stored: the second product then has the
// registers of the first.
const bool PLAIN = !CAPPED && !DROPPED;

// Eight terms from d0 on of a product's operands.
#define FETCH(rows, columns, d0)                                                 \
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {                                  \
        uint d = (d0) + ROW_TERM + 4u * i;                                       \
        next_rows[i] = vec4(0.0);                                                \
        if (d < D && query < push.queries) next_rows[i] = rows[rows_at + d * (push.queries / 4u)]; \
    }                                                                            \
    next_columns = vec4(0.0);                                                    \
    if ((d0) + COLUMN_TERM < D && key < push.keys)                               \
        next_columns = columns[columns_at + ((d0) + COLUMN_TERM) * (push.keys / 4u)];

// The chains over d of rows times columns; behind them comes the first step of the next product.
#define PRODUCT(sums, rows, columns, next_product_rows, next_product_columns)    \
    [[dont_unroll]] for (uint d0 = 0u; d0 < D; d0 += STEP) {                     \
        if (d0 + STEP < D) {                                                     \
            FETCH(rows, columns, d0 + STEP)                                      \
        } else {                                                                 \
            FETCH(next_product_rows, next_product_columns, 0u)                   \
        }                                                                        \
        ADD_STEP(sums, current, ALWAYS)                                          \
        current ^= 1u;                                                           \
        KEEP_STEP(current)                                                       \
        barrier();                                                               \
    }

// Stores s as [key][query].
#define STORE_TRANSPOSED(result)                                                 \
    EACH(h, 2u,                                                                  \
        uint row = row0 + ROW_OF(4u * h);                                        \
        EACH(u, 2u,                                                              \
            EACH(c, 4u,                                                          \
                uint column = key0 + COLUMN_OF(u) + c;                           \
                if (row < push.queries && column < push.keys)                    \
                    result[((stored_head * push.keys + column) * push.queries + row) / 4u] = \
                        vec4(s[4u * h][u][c], s[4u * h + 1u][u][c], s[4u * h + 2u][u][c], \
                             s[4u * h + 3u][u][c]);                              \
            )                                                                    \
        )                                                                        \
    )

void main() {
    uint key_tiles = (push.keys + COLUMNS - 1u) / COLUMNS;
    uint query_tiles = (push.queries + ROWS - 1u) / ROWS;
    uint key0 = hlx_group() % key_tiles * COLUMNS;
    uint row0 = hlx_group() / key_tiles % query_tiles * ROWS;
    uint stored_head = hlx_group() / (key_tiles * query_tiles);
    if (stored_head >= push.stored_heads) return;
    uint all_head = push.first_head + stored_head;
    uint sample_idx = all_head / push.heads;
    uint head = all_head % push.heads;

    uint own_row = row0 + gl_LocalInvocationIndex;
    uint ranges_at = sample_idx * push.queries;
    bool exists = own_row < push.queries;
    uvec2 own_range = exists ? ranges[ranges_at + own_row].yz : uvec2(0u);
    uvec4 bounds = joined_ranges(own_range, exists);
    if (bounds.y <= key0 || bounds.x >= key0 + COLUMNS) return;

    uint row_unit = thread_row_unit();
    uint column_unit = thread_column_unit();
    uint query = row0 + ROW_PLACE;
    uint key = key0 + COLUMN_PLACE;
    uint rows_at = (all_head * D * push.queries + query) / 4u;
    uint columns_at = (all_head / push.group * D * push.keys + key) / 4u;
    vec4 next_rows[2];
    vec4 next_columns;
    uint current = 0u;
    FETCH(q, k, 0u)
    KEEP_STEP(0u)
    barrier();

    // Scores, then dp, then ds.
    precise vec4 s[8][2];
    CLEAR(s, 8u)
#ifdef SCORES
    PRODUCT(s, q, k, q, k)
    EACH(r, 8u, EACH(u, 2u, EACH(c, 4u,
        precise float t;
        s[r][u][c] = score(s[r][u][c], t);
    )))
    STORE_TRANSPOSED(scores)
#else
    PRODUCT(s, q, k, d_o, v)
    // p (1 - t t), with the sign of a minus where it is dropped.
    precise vec4 kept_p[8][2];
    uvec2 draws = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    uint stats_at = all_head * push.queries;
    EACH(r, 8u,
        uint row = row0 + ROW_OF(r);
        uint at = min(row, push.queries - 1u);
        precise float m = stats[2u * (stats_at + at)];
        precise float inverse = stats[2u * (stats_at + at) + 1u];
        uvec4 range = DROPPED ? ranges[ranges_at + at] : uvec4(0u);
        EACH(u, 2u,
            uint column = key0 + COLUMN_OF(u);
            uvec4 kept = DROPPED ? kept_of(draws, head, range.w, column - range.x) : uvec4(1u);
            precise vec4 weight;
            EACH(c, 4u,
                precise float t;
                precise float x = hlx_sub(score(s[r][u][c], t), m);
                precise float p = hlx_mul(exp_below(x), inverse);
                precise float slanted = CAPPED ? hlx_mul(p, hlx_fma(-t, t, 1.0)) : p;
                if (DROPPED && kept[c] == 0u) {
                    p = 0.0;
                    slanted = uintBitsToFloat(floatBitsToUint(slanted) | HLX_SIGN);
                }
                weight[c] = DROPPED && kept[c] != 0u ? hlx_mul(p, push.factor) : p;
                if (!PLAIN) kept_p[r][u][c] = slanted;
                s[r][u][c] = 0.0;
            )
            if (row < push.queries && column < push.keys)
                w[((stored_head * push.queries + row) * push.keys + column) / 4u] = weight;
        )
    )

    PRODUCT(s, d_o, v, d_o, v)
    EACH(r, 8u,
        uint row = row0 + ROW_OF(r);
        precise float offset = delta[stats_at + min(row, push.queries - 1u)];
        EACH(u, 2u,
            uint column = key0 + COLUMN_OF(u);
            bool stands = row < push.queries && column < push.keys;
            uint at = ((stored_head * push.queries + row) * push.keys + column) / 4u;
            vec4 p = vec4(0.0);
            if (!PLAIN) p = kept_p[r][u];
            else if (stands) p = w[at];
            EACH(c, 4u,
                precise float d = s[r][u][c];
                precise float weight = p[c];
                if (DROPPED) {
                    bool kept = (floatBitsToUint(weight) & HLX_SIGN) == 0u;
                    d = kept ? hlx_mul(d, push.factor) : 0.0;
                    weight = hlx_abs(weight);
                }
                s[r][u][c] = hlx_mul(weight, hlx_sub(d, offset));
            )
            if (stands) ds[at] = s[r][u];
        )
    )
    STORE_TRANSPOSED(transposed_ds)
#endif
}
