// Attention over ranges in 16 bits by cooperative matrices with sums of f32 (../../crates/hlx-kernels/src/attention/halves.rs says
// what is computed): what its kernels share. Each of a workgroup's four subgroups has OWN_ROWS rows, queries, or keys where the
// including file sums over queries, and goes with the others through blocks of COLS columns: keys, or queries.
//
// Operands are rows of UNITS units of eight halves, zeros from D on: [batch, heads, positions, UNITS] (round_heads.comp). A block's
// rows of two of them pass through shared memory, with the next ones on their way in registers. Scores go through shared memory
// to the lanes of their rows, and the weights that these make of them come back as halves, where the scores were. WEIGHT_PLANES: how many weights the
// including file makes of a score.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#include "../include/convert.glsl"
#include "../include/half_matrices.glsl"
#include "ranged_operands.glsl"
#include "vectors.glsl"
#include "draws.glsl"

layout(constant_id = 7) const uint THREADS = 128;
layout(local_size_x_id = 7) in;
layout(constant_id = 10) const uint OWN_ROWS = 32;
layout(constant_id = 11) const uint COLS = 32;

const uint SUBGROUPS = 4u;
const uint SUBGROUP = THREADS / SUBGROUPS;
const uint ROWS = SUBGROUPS * OWN_ROWS;
#define LANE gl_SubgroupInvocationID
#define THREAD (gl_SubgroupID * SUBGROUP + LANE)

// Units of a row in memory, and in shared memory: an odd number, so that eight rows lie in different banks.
const uint UNITS = (D + 15u) / 16u * 2u;
const uint ROW_UNITS = UNITS + 1u;
// Units of a row's scores, four a unit, and of its weights, eight a unit.
const uint SCORE_UNITS = COLS / 4u + 1u;
const uint WEIGHT_UNITS = COLS / 8u + 1u;
const uint OF_SCORES = OWN_ROWS * SCORE_UNITS;
const uint OF_WEIGHTS = OWN_ROWS * WEIGHT_UNITS;
const uint REGION = OF_SCORES > WEIGHT_PLANES * OF_WEIGHTS ? OF_SCORES : WEIGHT_PLANES * OF_WEIGHTS;
// Matrices down a subgroup's rows, along an operand's row as terms and as results, and along a block.
const uint DOWN = OWN_ROWS / SIDE_M;
const uint STEPS = 8u * UNITS / DEPTH;
const uint ACROSS = 8u * UNITS / SIDE_N;
const uint BLOCK_STEPS = COLS / DEPTH;

shared uvec4 tiles[2u * COLS * ROW_UNITS];
shared uvec4 regions[SUBGROUPS * REGION];
shared float row_facts[ROWS];
shared float lane_facts[THREADS];
// The first column that one of the rows sees, and the end of those.
shared uint seen[2];

// A row has SHARES lanes, each with as many quads of columns, or a lane has LANE_ROWS rows.
const uint SHARES = SUBGROUP > OWN_ROWS ? SUBGROUP / OWN_ROWS : 1u;
const uint LANE_ROWS = SUBGROUP < OWN_ROWS ? OWN_ROWS / SUBGROUP : 1u;
const uint QUADS = COLS / 4u / SHARES;
#define SHARE (LANE % SHARES)
#define ROW_OF_LANE(r) (LANE / SHARES + (r) * SUBGROUP)
#define QUAD(q) (SHARE * QUADS + (q))
#define EACH_ROW(r) [[unroll]] for (uint r = 0u; r < LANE_ROWS; ++r)
#define EACH_QUAD(q) [[unroll]] for (uint q = 0u; q < QUADS; ++q)

vec4 score_quad(uint row, uint quad) {
    return uintBitsToFloat(regions[gl_SubgroupID * REGION + row * SCORE_UNITS + quad]);
}

// Two weights as halves, rounded to nearest, ties to even: of f32 without its lower 16 bits for bf16. NaN stays.
float upper_half(float x) {
    precise float scaled = hlx_mul(x, 65537.0);
    return hlx_sub(scaled, hlx_sub(scaled, x));
}
uint halves_of(float x, float y) {
#ifdef BF16
    return floatBitsToUint(upper_half(x)) >> 16 | (floatBitsToUint(upper_half(y)) & 0xffff0000u);
#else
    return packHalf2x16(vec2(x, y));
#endif
}

// exp(s - m), with -m times the logarithm of e: the device's own exponential, whose bits are the driver's. NaN stays.
const float LOG2_E = 1.44269504;
float weight_of(float s, float below) { return exp2(hlx_fma(s, LOG2_E, below)); }
float below_of(float m) { return hlx_mul(-LOG2_E, m); }

// Which of a lane's columns of a block, of which there are at most 32, its row sees: a bit each.
uint seen_columns(uvec4 range, uint column0) {
    uint first = column0 + 4u * QUAD(0u);
    uint low = max(range.y, first) - first;
    uint high = max(min(range.z, first + 4u * QUADS), first) - first;
    uint below_high = high < 32u ? (1u << high) - 1u : 0xffffffffu;
    return low < 32u ? below_high & 0xffffffffu << low : 0u;
}
#define SEES(columns, q, i) (((columns) >> (4u * (q) + (i)) & 1u) != 0u)

// Four weights of a row into their place as halves.
void put_weights(uint plane, uint row, uint quad, vec4 w) {
    uvec2 halves = uvec2(halves_of(w.x, w.y), halves_of(w.z, w.w));
    uint unit = gl_SubgroupID * REGION + plane * OF_WEIGHTS + row * WEIGHT_UNITS + quad / 2u;
    if (quad % 2u == 0u) regions[unit].xy = halves;
    else regions[unit].zw = halves;
}

// What all lanes of a row have of it, joined in their order.
#define JOIN_SHARES(x, JOIN)                                                     \
    if (SHARES > 1u) {                                                           \
        lane_facts[THREAD] = x;                                                  \
        subgroupBarrier();                                                       \
        x = lane_facts[THREAD - SHARE];                                          \
        [[unroll]] for (uint i = 1u; i < SHARES; ++i) {                          \
            precise float other = lane_facts[THREAD - SHARE + i];                        \
            x = JOIN;                                                            \
        }                                                                        \
        subgroupBarrier();                                                       \
    }

// Which of a row's columns are kept where weights are dropped: key_places are those of the four keys in their document.
bvec4 kept_keys(uvec2 key, uint head, uint position, uint first_place) {
    bvec4 kept;
    uvec4 words = draw4(key, head, position, first_place / 4u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint place = first_place + i;
        if (i > 0u && place % 4u == 0u) words = draw4(key, head, position, place / 4u);
        kept[i] = is_kept(words[place % 4u]);
    }
    return kept;
}

// The workgroup's tile of rows, of this many per head, and its head; false past the last one.
uint tile;
uint sample_idx;
uint own_head;
bool find_place(uint n_tiles, uint heads) {
    uint all_heads = push.batch * heads;
    tile = hlx_group() / all_heads;
    sample_idx = hlx_group() % all_heads / heads;
    own_head = hlx_group() % heads;
    return tile < n_tiles;
}
// The first row of a head's keys.
uint keys_of(uint head) {
    return (sample_idx * (push.heads / push.group) + head / push.group) * push.keys;
}

// The blocks that the rows see: from first_column to end_column.
uint first_column;
uint end_column;
void find_blocks(uvec4 range[LANE_ROWS]) {
    if (THREAD == 0u) {
        seen[0] = 0xffffffffu;
        seen[1] = 0u;
    }
    barrier();
    EACH_ROW(r) if (range[r].y < range[r].z) {
        atomicMin(seen[0], range[r].y);
        atomicMax(seen[1], range[r].z);
    }
    barrier();
    first_column = seen[0] / COLS * COLS;
    end_column = seen[1];
}

// Matrices of the subgroup's rows from row `first` of an operand on, as left operands. (Rows past the last one are others, or room
// behind the operand; their results are not stored.)
#define HELD DOWN * STEPS
#define HOLD(held, units, first)                                                 \
    [[unroll]] for (uint i = 0u; i < DOWN; ++i)                                  \
        [[unroll]] for (uint step = 0u; step < STEPS; ++step)                    \
            coopMatLoad(held[i * STEPS + step], units, ((first) + i * SIDE_M) * UNITS + step * DEPTH / 8u, UNITS, \
                        gl_CooperativeMatrixLayoutRowMajor);

// The block's rows of two operands on their way, and into shared memory; rows past the last repeat it, and are not seen.
const uint LOADS = (COLS * UNITS + THREADS - 1u) / THREADS;
#define FETCH(fetched, units, first, column, columns)                            \
    [[unroll]] for (uint l = 0u; l < LOADS; ++l) {                               \
        uint at = min(THREAD + l * THREADS, COLS * UNITS - 1u);                  \
        fetched[l] = units[((first) + min((column) + at / UNITS, (columns) - 1u)) * UNITS + at % UNITS]; \
    }
#define PUT(fetched, of_tile)                                                    \
    [[unroll]] for (uint l = 0u; l < LOADS; ++l) {                               \
        uint at = THREAD + l * THREADS;                                          \
        if (COLS * UNITS % THREADS == 0u || at < COLS * UNITS)                   \
            tiles[((of_tile) * COLS + at / UNITS) * ROW_UNITS + at % UNITS] = fetched[l]; \
    }

// The products of held rows with the rows of a tile, into the subgroup's region.
#define MULTIPLY_ROWS(held, of_tile)                                             \
    [[unroll]] for (uint j = 0u; j < COLS / SIDE_N; ++j) {                       \
        Sums scores[DOWN];                                                       \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) scores[i] = Sums(0.0);       \
        [[unroll]] for (uint step = 0u; step < STEPS; ++step) {                  \
            Right right;                                                         \
            coopMatLoad(right, tiles, ((of_tile) * COLS + j * SIDE_N) * ROW_UNITS + step * DEPTH / 8u, ROW_UNITS, \
                        gl_CooperativeMatrixLayoutColumnMajor);                  \
            [[unroll]] for (uint i = 0u; i < DOWN; ++i)                          \
                scores[i] = coopMatMulAdd(held[i * STEPS + step], right, scores[i]); \
        }                                                                        \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i)                              \
            coopMatStore(scores[i], regions, gl_SubgroupID * REGION + i * SIDE_M * SCORE_UNITS + j * SIDE_N / 4u, \
                         SCORE_UNITS, gl_CooperativeMatrixLayoutRowMajor);       \
    }

// Adds the products of a plane of weights with the rows of a tile to sums.
#define ADD_PRODUCTS(sums, plane, of_tile)                                       \
    [[unroll]] for (uint step = 0u; step < BLOCK_STEPS; ++step) {                \
        Left left[DOWN];                                                         \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i)                              \
            coopMatLoad(left[i], regions,                                        \
                        gl_SubgroupID * REGION + (plane) * OF_WEIGHTS + i * SIDE_M * WEIGHT_UNITS + step * DEPTH / 8u, \
                        WEIGHT_UNITS, gl_CooperativeMatrixLayoutRowMajor);       \
        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {                          \
            Right right;                                                         \
            coopMatLoad(right, tiles, ((of_tile) * COLS + step * DEPTH) * ROW_UNITS + j * SIDE_N / 8u, ROW_UNITS, \
                        gl_CooperativeMatrixLayoutRowMajor);                     \
            [[unroll]] for (uint i = 0u; i < DOWN; ++i)                          \
                sums[i * ACROSS + j] = coopMatMulAdd(left[i], right, sums[i * ACROSS + j]); \
        }                                                                        \
    }

// The results of a subgroup's rows, COLS columns at a time: into its region, and from there FINISH(row, d, four), of columns
// d .. d + 3 of its row number `row`, of which there are `n`. (A loop over the slices would not be unrolled, and all sums would lie
// in memory.)
#define FINISH_RESULTS(sums, n, FINISH)                                          \
    FINISH_SLICE(sums, 0u, n, FINISH)                                            \
    if (COLS < 8u * UNITS) { FINISH_SLICE(sums, COLS, n, FINISH) }               \
    if (2u * COLS < 8u * UNITS) { FINISH_SLICE(sums, 2u * COLS, n, FINISH) }     \
    if (3u * COLS < 8u * UNITS) { FINISH_SLICE(sums, 3u * COLS, n, FINISH) }
#define FINISH_SLICE(sums, column, n, FINISH)                                    \
    subgroupBarrier();                                                           \
    [[unroll]] for (uint i = 0u; i < DOWN; ++i)                                  \
        [[unroll]] for (uint j = 0u; j < COLS / SIDE_N; ++j)                     \
            if ((column) / SIDE_N + j < ACROSS)                                  \
                coopMatStore(sums[i * ACROSS + (column) / SIDE_N + j], regions,  \
                             gl_SubgroupID * REGION + i * SIDE_M * SCORE_UNITS + j * SIDE_N / 4u, SCORE_UNITS, \
                             gl_CooperativeMatrixLayoutRowMajor);                \
    subgroupBarrier();                                                           \
    [[dont_unroll]] for (uint at = LANE; at < OWN_ROWS * COLS / 4u; at += SUBGROUP) { \
        uint row = at / (COLS / 4u);                                             \
        uint d = (column) + at % (COLS / 4u) * 4u;                               \
        if (row < (n) && d < D) {                                                \
            vec4 four = score_quad(row, at % (COLS / 4u));                       \
            FINISH                                                               \
        }                                                                        \
    }
// Results times a factor as the arithmetic stores them: without subnormals and -0.
vec4 finished(vec4 four, float factor) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) four[i] = hlx_pos0(hlx_mul(four[i], factor));
    return four;
}

layout(set = 0, binding = 0) readonly restrict buffer QUnits { uvec4 q_units[]; };
layout(set = 0, binding = 1) readonly restrict buffer KUnits { uvec4 k_units[]; };
layout(set = 0, binding = 2) readonly restrict buffer VUnits { uvec4 v_units[]; };
layout(set = 0, binding = 3) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 4) readonly restrict buffer Counter { uint step_and_base[]; };

// The workgroup's queries. The last tiles of all heads, which see most keys if attention is causal, go first.
#define OWN_QUERIES                                                              \
    uint n_tiles = (push.queries + ROWS - 1u) / ROWS;                            \
    if (!find_place(n_tiles, push.heads)) return;                                \
    uint row0 = (n_tiles - 1u - tile) * ROWS + gl_SubgroupID * OWN_ROWS;         \
    uint n = row0 < push.queries ? min(OWN_ROWS, push.queries - row0) : 0u;      \
    uint first_row = stats_base(sample_idx, own_head) + min(row0, push.queries - 1u); \
    uint first_key = keys_of(own_head);                                          \
    uvec4 range[LANE_ROWS];                                                      \
    EACH_ROW(r) range[r] =                                                       \
        ROW_OF_LANE(r) < n ? ranges[sample_idx * push.queries + row0 + ROW_OF_LANE(r)] : uvec4(0u); \
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u); \
    find_blocks(range);
