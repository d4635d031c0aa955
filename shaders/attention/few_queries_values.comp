// Attention over ranges for few queries: from the scores to the sums of values.
//   m' = max(m, tops[r, b]), c = exp(m - m'), p_j = exp(scores[r, j] - m') for the keys that row r sees
//   l = l c, then l + p_j in order; o = o c, then fma(p_j, v[j], o) in order
//   o[r] = o / l; stats = (m, 1 / l); zeros where r sees no key. o: [B, T, H, D]; stats: [B, H, T, 2].
//
// A workgroup has 32 columns of up to four rows of a key head (few_queries.glsl). Half of the threads load
// values and scores DEPTH steps of 64 keys ahead, and turn scores into weights; a thread of the next 128 has
// the chain of a column of o, and four others those of l. What passes between them lies in shared memory,
// whose two halves are filled in turns.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "few_queries.glsl"

#define ROWS 4u
#define LOADERS 128u
#define CHAINS 128u
// Keys of a step, and vectors of 32 columns.
#define STEP 64u
#define UNITS 8u
#define DEPTH 4u
// Vectors of values, and scores, that a loader has of a step.
#define LOADS (STEP * UNITS / LOADERS)
#define STEP_BLOCKS (STEP / BLOCK)
layout(local_size_x = 288) in;

layout(set = 0, binding = 0) readonly restrict buffer V { float v_scalars[]; };
layout(set = 0, binding = 0) readonly restrict buffer VVectors { vec4 v_vectors[]; };
layout(set = 0, binding = 1) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 2) readonly restrict buffer Scores { float scores[]; };
layout(set = 0, binding = 3) readonly restrict buffer Tops { float tops[]; };
layout(set = 0, binding = 4) writeonly restrict buffer O { float o[]; };
layout(set = 0, binding = 5) writeonly restrict buffer Stats { float stats[]; };

DEFINE_FETCH(fetch_v, v_scalars, v_vectors)

shared vec4 value_tile[2u * STEP * UNITS];
shared vec4 weight_tile[2u * ROWS * STEP / 4u];
shared float corrections[2u * ROWS * STEP_BLOCKS];
shared float totals[ROWS];

// The values and scores of a step, into a slot of registers. Keys that no row sees have the value 0; blocks
// past the last one repeat it.
#define FETCH(slot, step)                                                                  \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {                                          \
        uint at = loader + i * LOADERS;                                                     \
        uint t = (step) * STEP + at / UNITS;                                                \
        uint d = first_d + 4u * (at % UNITS);                                               \
        staged_values[(slot) * LOADS + i] = vec4(0.0);                                      \
        if (t >= first_key && t < end_key)                                                  \
            staged_values[(slot) * LOADS + i] = fetch_v(v_at + t * push.v_position + d, d); \
    }                                                                                       \
    [[unroll]] for (uint b = 0u; b < STEP_BLOCKS; ++b) {                                    \
        uint at = blocks_at + min((step) * STEP_BLOCKS + b, BLOCKS - 1u);                   \
        staged_scores[(slot) * STEP_BLOCKS + b] = scores[at * BLOCK + lane];                \
        staged_tops[(slot) * STEP_BLOCKS + b] = tops[at];                                   \
    }

// What has been fetched of a step, into a half of shared memory, scores as weights.
#define KEEP(slot, half_idx, step)                                                         \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i)                                            \
        value_tile[(half_idx) * STEP * UNITS + loader + i * LOADERS] =                      \
            staged_values[(slot) * LOADS + i];                                              \
    EACH(b, STEP_BLOCKS,                                                                    \
        uint key0 = (step) * STEP + b * BLOCK;                                              \
        precise float correction = 1.0;                                                     \
        precise float p = 0.0;                                                              \
        if (key0 < end && key0 + BLOCK > begin) {                                           \
            precise float now = hlx_max(m, staged_tops[(slot) * STEP_BLOCKS + b]);          \
            correction = exp_below(hlx_sub(m, now));                                        \
            m = now;                                                                        \
            p = exp_below(hlx_sub(staged_scores[(slot) * STEP_BLOCKS + b], now));           \
            if (key0 + lane < begin || key0 + lane >= end) p = 0.0;                         \
        }                                                                                   \
        uint key = b * BLOCK + lane;                                                        \
        weight_tile[((half_idx) * ROWS + row) * (STEP / 4u) + key / 4u][key % 4u] = p;      \
        if (lane == 0u) corrections[((half_idx) * ROWS + row) * STEP_BLOCKS + b] = correction; \
    )

// The weights of keys 4 j .. 4 j + 3 of a block of the step.
#define WEIGHTS(b, j) weight_tile[(half_idx * ROWS + row) * (STEP / 4u) + (b) * (BLOCK / 4u) + (j)]
#define CORRECTION(b) corrections[(half_idx * ROWS + row) * STEP_BLOCKS + (b)]

// Loaders are at most one step ahead: they fill the half that the chains have left at the last barrier.
#define STAGE(slot)                                                                        \
    if (step == end_step) break;                                                            \
    if (role == 0u) {                                                                       \
        KEEP(slot, step & 1u, step)                                                         \
        if (step + DEPTH < end_step) { FETCH(slot, step + DEPTH) }                          \
    }                                                                                       \
    barrier();                                                                              \
    if (role == 1u) sum = add_values(sum, step, row, lane, begin, end);                     \
    if (role == 2u) sum = add_weights(sum, step & 1u, row);                                 \
    ++step;

// Keys whose weights and values are loaded while the terms of as many others are added, so that no term
// waits for shared memory.
#define BATCH 16u
#define LOAD_BATCH(batch)                                                                  \
    [[unroll]] for (uint j = 0u; j < BATCH / 4u; ++j) {                                     \
        p[(batch) & 1u][j] = WEIGHTS(0u, (batch) * (BATCH / 4u) + j);                       \
        [[unroll]] for (uint c = 0u; c < 4u; ++c)                                           \
            v[(batch) & 1u][4u * j + c] =                                                   \
                value_tile[tile + ((batch) * BATCH + 4u * j + c) * UNITS][column % 4u];     \
    }

// The chain of a column of o goes on over a step. Keys that no row of the workgroup sees have the value 0, and
// those that this row does not see the weight 0: with one query, their terms change nothing. With several, a
// key that another row sees may hold an infinity, and is skipped.
float add_values(float chain, uint step, uint row, uint column, uint begin, uint end) {
    precise float sum = chain;
    uint half_idx = step & 1u;
    uint tile = half_idx * STEP * UNITS + column / 4u;
    bool whole = push.queries == 1u || (step * STEP >= begin && step * STEP + STEP <= end);
    if (NATIVE && whole) {
        vec4 p[2][BATCH / 4u];
        float v[2][BATCH];
        LOAD_BATCH(0u)
        [[unroll]] for (uint batch = 0u; batch < STEP / BATCH; ++batch) {
            if (batch + 1u < STEP / BATCH) { LOAD_BATCH(batch + 1u) }
            if (batch % (BLOCK / BATCH) == 0u) sum = hlx_mul(sum, CORRECTION(batch / (BLOCK / BATCH)));
            [[unroll]] for (uint j = 0u; j < BATCH / 4u; ++j)
                [[unroll]] for (uint c = 0u; c < 4u; ++c)
                    sum = hlx_fma(p[batch & 1u][j][c], v[batch & 1u][4u * j + c], sum);
        }
        return sum;
    }
    for (uint b = 0u; b < STEP_BLOCKS; ++b) {
        sum = hlx_mul(sum, CORRECTION(b));
        uint key0 = step * STEP + b * BLOCK;
        for (uint key = max(key0, begin); key < min(key0 + BLOCK, end); ++key) {
            vec4 p = WEIGHTS(b, (key - key0) / 4u);
            uint at = tile + (key - step * STEP) * UNITS;
            sum = hlx_fma(p[key % 4u], value_tile[at][column % 4u], sum);
        }
    }
    return sum;
}

// The chain of l goes on over a step; keys that are not seen weigh 0.
float add_weights(float chain, uint half_idx, uint row) {
    precise float sum = chain;
    EACH(b, STEP_BLOCKS,
        vec4 p[BLOCK / 4u];
        EACH(j, BLOCK / 4u, p[j] = WEIGHTS(b, j);)
        sum = hlx_mul(sum, CORRECTION(b));
        EACH(j, BLOCK / 4u,
            EACH(c, 4u, sum = hlx_add(sum, p[j][c]);)
        )
    )
    return sum;
}

void main() {
    uint all_rows = rows_of_key_head();
    uint row_tiles = (all_rows + ROWS - 1u) / ROWS;
    uint column_tiles = (D + 31u) / 32u;
    uint first_d = hlx_group() % column_tiles * 32u;
    uint first_row = hlx_group() / column_tiles % row_tiles * ROWS;
    uint key_head = hlx_group() / column_tiles / row_tiles % key_heads();
    uint sample_idx = hlx_group() / column_tiles / row_tiles / key_heads();
    if (sample_idx >= push.batch) return;
    uint n = min(ROWS, all_rows - first_row);

    // 0 loads, 1 has a chain of o, 2 one of l.
    uint thread = gl_LocalInvocationIndex;
    uint role = thread / LOADERS;
    uint loader = thread % LOADERS;
    uint lane = thread % BLOCK;
    uint row = role == 2u ? lane % ROWS : loader / BLOCK;
    uint query = (first_row + min(row, n - 1u)) / push.group;
    uint head = key_head * push.group + (first_row + min(row, n - 1u)) % push.group;
    uvec4 range = ranges[sample_idx * push.queries + query];
    uint begin = range.y;
    uint end = row < n ? range.z : 0u;

    uint first_key = 0xffffffffu;
    uint end_key = 0u;
    for (uint t = first_row / push.group; t <= (first_row + n - 1u) / push.group; ++t) {
        uvec4 seen = ranges[sample_idx * push.queries + t];
        if (seen.y < seen.z) {
            first_key = min(first_key, seen.y);
            end_key = max(end_key, seen.z);
        }
    }
    uint end_step = (end_key + STEP - 1u) / STEP;
    uint step = min(first_key / STEP, end_step);

    uint v_at = v_base(sample_idx, head);
    uint blocks_at = row_blocks(sample_idx, key_head, first_row + min(row, n - 1u));
    vec4 staged_values[DEPTH * LOADS];
    float staged_scores[DEPTH * STEP_BLOCKS];
    float staged_tops[DEPTH * STEP_BLOCKS];
    if (role == 0u) {
        [[unroll]] for (uint slot = 0u; slot < DEPTH; ++slot)
            if (step + slot < end_step) { FETCH(slot, step + slot) }
    }
    precise float m = uintBitsToFloat(0xff800000u);
    precise float sum = 0.0;
    for (;;) {
        STAGE(0u)
        STAGE(1u)
        STAGE(2u)
        STAGE(3u)
    }

    if (role == 2u && lane < ROWS) totals[row] = sum;
    barrier();
    if (row >= n) return;
    bool sees = begin < end;
    uint d = first_d + lane;
    if (role == 1u && d < D) {
        uint at = o_base(sample_idx, head) + query * O_STRIDE + d;
        o[at] = sees ? hlx_pos0(hlx_div(sum, totals[row])) : 0.0;
    }
    if (role == 0u && lane == 0u && first_d == 0u) {
        uint at = 2u * (stats_base(sample_idx, head) + query);
        stats[at] = sees ? m : 0.0;
        stats[at + 1u] = sees ? hlx_div(1.0, totals[row]) : 0.0;
    }
}
