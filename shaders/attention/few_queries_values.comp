// Attention over ranges for few queries: from the scores to the sums of values.
//   m' = max(m, tops[r, b]), c = exp(m - m'), p_j = exp(scores[r, j] - m') for the keys that row r sees
//   l = l c, then l + p_j in order; o = o c, then fma(p_j, v[j], o) in order
//   o[r] = o / l; stats = (m, 1 / l); zeros where r sees no key. o: [B, T, H, D]; stats: [B, H, T, 2].
//
// A workgroup has 16 columns of up to eight rows of a key head (few_queries.glsl). Half of the threads load; a
// thread of the other half has the chains of a column of o and of l. Keys come in rounds of 128, each loaded by
// one of four groups of loaders, so that four rounds are under way; what passes from loaders to chains lies in
// shared memory, whose two halves are filled in turns. The maxima m of all blocks do not wait for the sums: they
// are joined ahead, 64 blocks at a time. The program is short, as that of few_rows.glsl and for its reason.
#define PAGES_SLOT 6
#include "few_queries.glsl"

#define ROWS 8u
#define COLUMNS 16u
#define UNITS (COLUMNS / 4u)
#define LOADERS 128u
#define GROUP 32u
#define GROUPS (LOADERS / GROUP)
#define ROUND 128u
#define ROUND_BLOCKS (ROUND / BLOCK)
// Vectors of values that a loader has of a round; of scores it has one per row.
#define LOADS (ROUND * UNITS / GROUP)
// Blocks whose maxima are joined at a time, and their rounds.
#define SPAN 64u
#define SPAN_ROUNDS (SPAN / ROUND_BLOCKS)
#define THREADS 256u
layout(local_size_x = 256) in;

READ_ROWS(0, readonly, V, fetch_v, v_scalars, v_vectors)
layout(set = 0, binding = 1) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 2) readonly restrict buffer Scores { vec4 scores[]; };
layout(set = 0, binding = 3) readonly restrict buffer Tops { float tops[]; };
layout(set = 0, binding = 4) writeonly restrict buffer O { float o[]; };
layout(set = 0, binding = 5) writeonly restrict buffer Stats { float stats[]; };

shared vec4 value_tile[2u * ROUND * UNITS];
shared vec4 weight_tile[2u * ROWS * ROUND / 4u];
// Of each row and block of a span: m behind the block, and what the sums before it are multiplied by.
shared float maxima[ROWS * SPAN];
shared float corrections[ROWS * SPAN];
// The keys that each row sees.
shared uvec2 seen[ROWS];

const float NOTHING = uintBitsToFloat(0xff800000u);

// Whether a row sees a key of a block.
bool sees_block(uint row, uint block) {
    return block * BLOCK < seen[row].y && block * BLOCK + BLOCK > seen[row].x;
}

// The maxima and corrections of `used` blocks from first_block on. They go on where those of the span before
// ended, if there is one; `blocks_at` is the place of the first row's block 0 in tops.
void join_maxima(uint first_block, uint used, bool goes_on, uint n, uint blocks_at) {
    const uint OWN = ROWS * SPAN / THREADS;
    precise float before[OWN];
    precise float m[OWN];
    EACH(j, OWN,
        uint at = gl_LocalInvocationIndex + j * THREADS;
        uint block = first_block + at % SPAN;
        before[j] = goes_on ? maxima[at / SPAN * SPAN + SPAN - 1u] : NOTHING;
        m[j] = NOTHING;
        if (at / SPAN < n && at % SPAN < used && sees_block(at / SPAN, block))
            m[j] = tops[blocks_at + at / SPAN * BLOCKS + block];
        if (at % SPAN == 0u) m[j] = hlx_max(before[j], m[j]);
    )
    barrier();
    EACH(j, OWN, maxima[gl_LocalInvocationIndex + j * THREADS] = m[j];)
    barrier();
    for (uint width = 1u; width < used; width <<= 1) {
        EACH(j, OWN,
            uint at = gl_LocalInvocationIndex + j * THREADS;
            if (at % SPAN >= width) m[j] = hlx_max(maxima[at - width], m[j]);
        )
        barrier();
        EACH(j, OWN, maxima[gl_LocalInvocationIndex + j * THREADS] = m[j];)
        barrier();
    }
    EACH(j, OWN,
        uint at = gl_LocalInvocationIndex + j * THREADS;
        if (at % SPAN > 0u) before[j] = maxima[at - 1u];
        precise float correction = exp_below(hlx_sub(before[j], m[j]));
        corrections[at] = sees_block(at / SPAN, first_block + at % SPAN) ? correction : 1.0;
    )
    barrier();
}

// The values and scores of a round. Keys that no row sees have the value 0; blocks past the last one repeat it.
#define FETCH(round)                                                                       \
    uint shifts[ROUND_BLOCKS];                                                              \
    [[unroll]] for (uint b = 0u; b < ROUND_BLOCKS; ++b)                                     \
        shifts[b] = page_shift(sample_idx, (round) * ROUND + b * BLOCK);                    \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {                                          \
        uint at = lane + i * GROUP;                                                         \
        uint t = (round) * ROUND + at / UNITS;                                              \
        uint d = first_d + 4u * (at % UNITS);                                               \
        staged_values[i] = vec4(0.0);                                                       \
        if (t >= first_key && t < end_key)                                                  \
            staged_values[i] = fetch_v(v_at + (t + shifts[i / (LOADS / ROUND_BLOCKS)]) * push.v_position + d, d); \
    }                                                                                       \
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {                                           \
        uint block = min((round) * ROUND_BLOCKS + lane / (BLOCK / 4u), BLOCKS - 1u);        \
        if (r < n)                                                                          \
            staged_scores[r] =                                                              \
                scores[(blocks_at + r * BLOCKS + block) * (BLOCK / 4u) + lane % (BLOCK / 4u)]; \
    }

// What has been fetched of a round, into a half of shared memory.
#define KEEP(half_idx)                                                                     \
    [[unroll]] for (uint i = 0u; i < LOADS; ++i)                                            \
        value_tile[(half_idx) * ROUND * UNITS + lane + i * GROUP] = staged_values[i];       \
    [[unroll]] for (uint r = 0u; r < ROWS; ++r)                                             \
        if (r < n) weight_tile[((half_idx) * ROWS + r) * (ROUND / 4u) + lane] = staged_scores[r];

// A loader's own scores there become weights; span_idx is the place of its block among the maxima.
void weigh(uint half_idx, uint round, uint lane, uint span_idx, uint n) {
    for (uint r = 0u; r < n; ++r) {
        uint at = (half_idx * ROWS + r) * (ROUND / 4u) + lane;
        vec4 s = weight_tile[at];
        precise float m = maxima[r * SPAN + span_idx];
        precise vec4 p;
        EACH(c, 4u,
            uint key = round * ROUND + 4u * lane + c;
            p[c] = key >= seen[r].x && key < seen[r].y ? exp_below(hlx_sub(s[c], m)) : 0.0;
        )
        weight_tile[at] = p;
    }
}

// Keys whose weights and values are loaded while the terms of as many others are added, so that no term
// waits for shared memory.
#define BATCH 16u
#define LOAD_BATCH(p, v, first)                                                            \
    [[unroll]] for (uint j = 0u; j < BATCH / 4u; ++j) {                                     \
        p[j] = weight_tile[weights + (first) / 4u + j];                                     \
        [[unroll]] for (uint c = 0u; c < 4u; ++c)                                           \
            v[4u * j + c] = value_tile[values + ((first) + 4u * j + c) * UNITS][column % 4u]; \
    }
#define ADD_BATCH(p, v)                                                                    \
    [[unroll]] for (uint j = 0u; j < BATCH / 4u; ++j)                                       \
        [[unroll]] for (uint c = 0u; c < 4u; ++c) {                                         \
            sums.x = hlx_fma(p[j][c], v[4u * j + c], sums.x);                               \
            sums.y = hlx_add(sums.y, p[j][c]);                                              \
        }

// The chains of a column of o and of l go on over `blocks` blocks of a round. Keys that no row of the workgroup
// sees have the value 0, and those that this row does not see the weight 0: with one query, their terms change
// nothing. With several, a key that another row sees may hold an infinity, and is skipped.
vec2 add_values(vec2 chains, uint half_idx, uint round, uint row, uint column, uint span_idx, uint blocks) {
    precise vec2 sums = chains;
    uint values = half_idx * ROUND * UNITS + column / 4u;
    uint weights = (half_idx * ROWS + row) * (ROUND / 4u);
    uint key0 = round * ROUND;
    bool whole = push.queries == 1u || (key0 >= seen[row].x && key0 + ROUND <= seen[row].y);
    if (NATIVE && whole) {
        vec4 p[BATCH / 4u];
        float v[BATCH];
        LOAD_BATCH(p, v, 0u)
        [[dont_unroll]] for (uint b = 0u; b < blocks; ++b) {
            vec4 next_p[BATCH / 4u];
            float next_v[BATCH];
            LOAD_BATCH(next_p, next_v, b * BLOCK + BATCH)
            precise float correction = corrections[row * SPAN + span_idx + b];
            sums.x = hlx_mul(sums.x, correction);
            sums.y = hlx_mul(sums.y, correction);
            ADD_BATCH(p, v)
            // The last turn loads the first keys again instead of branching.
            LOAD_BATCH(p, v, (b + 1u) % ROUND_BLOCKS * BLOCK)
            ADD_BATCH(next_p, next_v)
        }
        return sums;
    }
    for (uint b = 0u; b < blocks; ++b) {
        precise float correction = corrections[row * SPAN + span_idx + b];
        sums.x = hlx_mul(sums.x, correction);
        sums.y = hlx_mul(sums.y, correction);
        uint end = min(key0 + b * BLOCK + BLOCK, seen[row].y);
        for (uint key = max(key0 + b * BLOCK, seen[row].x); key < end; ++key) {
            precise float p = weight_tile[weights + (key - key0) / 4u][key % 4u];
            sums.x = hlx_fma(p, value_tile[values + (key - key0) * UNITS][column % 4u], sums.x);
            sums.y = hlx_add(sums.y, p);
        }
    }
    return sums;
}

void main() {
    FIND_ROWS(uint column_tiles = (D + COLUMNS - 1u) / COLUMNS;
              uint first_d = hlx_group() % column_tiles * COLUMNS;, column_tiles)

    uint thread = gl_LocalInvocationIndex;
    bool loads = thread < LOADERS;
    uint lane = thread % GROUP;
    uint row = thread % LOADERS / COLUMNS;
    uint column = thread % COLUMNS;
    if (thread < n) seen[thread] = ranges[sample_idx * push.queries + (first_row + thread) / push.group].yz;
    barrier();
    uint first_key = 0xffffffffu;
    uint end_key = 0u;
    for (uint r = 0u; r < n; ++r)
        if (seen[r].x < seen[r].y) {
            first_key = min(first_key, seen[r].x);
            end_key = max(end_key, seen[r].y);
        }
    uint end_block = (end_key + BLOCK - 1u) / BLOCK;
    uint end_round = (end_key + ROUND - 1u) / ROUND;
    uint first_round = min(first_key / ROUND, end_round);

    uint v_at = v_base(sample_idx, key_head * push.group);
    uint blocks_at = row_blocks(sample_idx, key_head, first_row);
    vec4 staged_values[LOADS];
    vec4 staged_scores[ROWS];
    // The next round that this loader's group has.
    uint own_round = first_round + thread / GROUP;
    if (loads && own_round < end_round) { FETCH(own_round) }
    // The sums of o and of l.
    precise vec2 sums = vec2(0.0);
    uint span_round = first_round;
    [[dont_unroll]] for (uint round = first_round; round < end_round; ++round) {
        if (round == first_round || round - span_round == SPAN_ROUNDS) {
            span_round = round;
            uint used = min(SPAN, end_block - round * ROUND_BLOCKS);
            join_maxima(round * ROUND_BLOCKS, used, round > first_round, n, blocks_at);
        }
        uint span_idx = (round - span_round) * ROUND_BLOCKS;
        // Loaders are at most one round ahead: they fill the half that the chains have left at the last barrier.
        if (loads && round == own_round) {
            KEEP(round & 1u)
            weigh(round & 1u, round, lane, span_idx + lane / (BLOCK / 4u), n);
            own_round += GROUPS;
            if (own_round < end_round) { FETCH(own_round) }
        }
        barrier();
        uint blocks = min(ROUND_BLOCKS, end_block - round * ROUND_BLOCKS);
        if (!loads && row < n) sums = add_values(sums, round & 1u, round, row, column, span_idx, blocks);
    }

    if (loads || row >= n) return;
    bool sees = seen[row].x < seen[row].y;
    uint query = (first_row + row) / push.group;
    uint head = key_head * push.group + (first_row + row) % push.group;
    uint d = first_d + column;
    STORE_RESULT(sums.x, sums.y, maxima[row * SPAN + end_block - 1u - span_round * ROUND_BLOCKS])
}
