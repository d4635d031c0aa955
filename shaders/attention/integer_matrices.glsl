// Attention over ranges by cooperative matrices of 8-bit integers, whose sides divide 16: what its kernels share. A workgroup
// has 32 rows, queries, or keys where the including file sums over queries, and goes through blocks of 32 columns: keys, or
// queries. Each of its four subgroups multiplies a quarter: of the scores 16 rows and 16 columns, of the results 16 rows
// and half of the columns, which stay in matrices until the end.
//
// Scores pass through shared memory to the threads of their rows. Digits of the weights that they make go from there into
// matrices; the digits that they are products with are transposed on their way into shared memory, of which a driver may give
// a processor as little as 52 KiB for all its workgroups: one tile of scores serves one product after the other. With
// NARROW, for matrices of less than 16 terms, operands and shared memory are arrays of words.
//
// The including file has the shared memory's sizes: DIGIT_PLANES of weights, TRANSPOSED_PLANES of transposed digits,
// STAGED_PLANES of the rows before them, COLUMN_FACTS numbers of a column and ROW_FACTS of a row.
#include "../include/matrices.glsl"
#define CHUNKS_OF_MATRICES
#include "integer_operands.glsl"

const uint ROWS = 32u;
// Of four subgroups.
layout(constant_id = 7) const uint THREADS = 128;
layout(local_size_x_id = 7) in;

// A row has this many threads, which are of one subgroup: each has a share of its columns, four at a time.
const uint SHARES = THREADS / ROWS;
#define THREAD (gl_SubgroupID * (THREADS / 4u) + gl_SubgroupInvocationID)
#define OWN_ROW (THREAD / SHARES)
#define OWN_SHARE (THREAD % SHARES)
const uint OWN_QUADS = COLS / 4u / SHARES;
// For each of them, number `own` of the thread's.
#define EACH_OWN_QUAD(quad, BODY)                                                \
    EACH(own, OWN_QUADS, uint quad = OWN_SHARE * OWN_QUADS + own; BODY)

// The subgroup's rows and columns, of two halves each, as matrices.
#define HALF_OF_ROWS (gl_SubgroupID / 2u)
#define HALF_OF_COLUMNS (gl_SubgroupID % 2u)
const uint DOWN = ROWS / 2u / SIDE_M;
const uint ACROSS = COLS / 2u / SIDE_N;
const uint ACROSS_CHUNK = CHUNK / 2u / SIDE_N;
#define OWN_DOWN(i) (ROWS / 2u * HALF_OF_ROWS + (i) * SIDE_M)
#define OWN_ACROSS(j) (COLS / 2u * HALF_OF_COLUMNS + (j) * SIDE_N)
#define OWN_ACROSS_CHUNK(j) (CHUNK / 2u * HALF_OF_COLUMNS + (j) * SIDE_N)
// Matrices along a row of an operand, and along a row of a block's weights.
const uint STEPS = 4u * WORDS / DEPTH;
const uint BLOCK_STEPS = COLS / DEPTH;

// Of a row in shared memory: the units of its scores, or of 32 of its results, and of its digits in a plane, with one of
// padding each.
const uint SUM_UNITS = COLS / 4u + 1u;
const uint DIGIT_UNITS = COLS / 16u + 1u;
const uint TILE_UNITS = ROWS * SUM_UNITS;
// Rows of an operand that scores are sums with pass through shared memory where the transposed digits come later: a driver loads
// columns of a matrix from a buffer byte by byte.
const uint ROW_UNITS = WORDS / 4u + 1u;
const uint STAGED_UNITS = STAGED_PLANES * COLS * ROW_UNITS;
const uint TURNED_UNITS = TRANSPOSED_PLANES * CHUNK * DIGIT_UNITS;
const uint OPERAND_UNITS = STAGED_UNITS > TURNED_UNITS ? STAGED_UNITS : TURNED_UNITS;

#ifdef NARROW
#define PARTS 4u
shared uint sum_tile[TILE_UNITS * PARTS];
shared uint digit_tile[DIGIT_PLANES * ROWS * DIGIT_UNITS * PARTS];
shared uint turned_tile[OPERAND_UNITS * PARTS];
vec4 got(uint unit) {
    uint at = PARTS * unit;
    return uintBitsToFloat(uvec4(sum_tile[at], sum_tile[at + 1u], sum_tile[at + 2u], sum_tile[at + 3u]));
}
void put(uint unit, uvec4 v) { for (uint i = 0u; i < PARTS; ++i) sum_tile[PARTS * unit + i] = v[i]; }
void put_digits(uint word, uint digits) { digit_tile[word] = digits; }
void put_turned(uint word, uint digits) { turned_tile[word] = digits; }
void put_row(uint unit, uvec4 v) { for (uint i = 0u; i < PARTS; ++i) turned_tile[PARTS * unit + i] = v[i]; }
#define LOAD(matrix, operand, word, stride, layout_) coopMatLoad(matrix, operand, word, stride, layout_)
#else
#define PARTS 1u
shared uvec4 sum_tile[TILE_UNITS];
shared uvec4 digit_tile[DIGIT_PLANES * ROWS * DIGIT_UNITS];
shared uvec4 turned_tile[OPERAND_UNITS];
vec4 got(uint unit) { return uintBitsToFloat(sum_tile[unit]); }
void put(uint unit, uvec4 v) { sum_tile[unit] = v; }
void put_digits(uint word, uint digits) { digit_tile[word / 4u][word % 4u] = digits; }
void put_turned(uint word, uint digits) { turned_tile[word / 4u][word % 4u] = digits; }
void put_row(uint unit, uvec4 v) { turned_tile[unit] = v; }
#define LOAD(matrix, operand, word, stride, layout_)                             \
    coopMatLoad(matrix, operand##_units, (word) / 4u, (stride) / 4u, layout_)
#endif
// Where this many bytes lie in a row of shared memory.
#define AT(bytes) ((bytes) * PARTS / 16u)

layout(set = 0, binding = 0) readonly restrict buffer QUnits { uvec4 q_units[]; };
layout(set = 0, binding = 1) readonly restrict buffer KUnits { uvec4 k_units[]; };
layout(set = 0, binding = 2) readonly restrict buffer VUnits { uvec4 v_units[]; };

// Numbers of the block's columns, of the rows as the bits of matrices' elements, and of a row's threads.
shared vec4 column_facts[COLUMN_FACTS * COLS / 4u];
shared int row_facts[ROW_FACTS * ROWS];
shared uint shared_facts[THREADS];
#define COLUMN_FACT(fact, column) column_facts[((fact) * COLS + (column)) / 4u][(column) % 4u]
vec4 column_facts_of(uint fact, uint quad) { return column_facts[fact * (COLS / 4u) + quad]; }
void put_row_fact(uint fact, float x) { row_facts[fact * ROWS + OWN_ROW] = floatBitsToInt(x); }
void share(uint word) { shared_facts[THREAD] = word; }
uint shared_fact(uint of_share) { return shared_facts[OWN_ROW * SHARES + of_share]; }

// Its origin and end, the first column that one of its rows sees, and the end of those.
shared uint segment[4];

// The segment at hand: neighbouring rows of one document, whose blocks count from the same column.
uint segment_end;   // past its last row
uint first_column;  // of its first block
uint end_column;

// How far a column is in its block.
#ifndef BLOCK_OFFSET
#define BLOCK_OFFSET(column, origin) (((column) - (origin)) % COLS)
#endif

// Finds the segment of the rows from `start` on; `range` is that of the thread's row (ranges.glsl). end_column is 0 if it sees
// nothing.
void find_segment(uint start, uint n, uvec4 range) {
    bool is_row = OWN_SHARE == 0u && OWN_ROW >= start && OWN_ROW < n;
    if (is_row && OWN_ROW == start) {
        segment[0] = range.x;
        segment[1] = n;
        segment[2] = 0xffffffffu;
        segment[3] = 0u;
    }
    barrier();
    if (is_row && range.x != segment[0]) atomicMin(segment[1], OWN_ROW);
    barrier();
    segment_end = segment[1];
    if (is_row && OWN_ROW < segment_end && range.y < range.z) {
        atomicMin(segment[2], range.y);
        atomicMax(segment[3], range.z);
    }
    barrier();
    end_column = segment[3];
    first_column = end_column > 0u ? segment[2] - BLOCK_OFFSET(segment[2], segment[0]) : 0u;
    barrier();
}

// Sums begin at the bits of 3 2^22, and are floats above that by their bits: of at most 256 products of digits each, they are
// at most 2^22. The whole sum is rounded once, fused or not, as a product by 256 is exact.
const int NO_SUM = 0x4b400000;
float whole_sum(int high, int low) {
    precise float upper = intBitsToFloat(high) - 12582912.0;
    precise float lower = intBitsToFloat(low) - 12582912.0;
    precise float sum = fma(upper, 256.0, lower);
    return sum;
}

// Rows of operands that stay in registers: those of the workgroup, if heads are not wide.
const bool HOLDS = D <= 128u;
#define HELD(planes) (HOLDS ? (planes) * DOWN * STEPS : 1u)
#define HOLD(held, planes, left, row, plane)                                     \
    if (HOLDS)                                                                   \
        [[unroll]] for (uint p = 0u; p < planes; ++p)                            \
            [[unroll]] for (uint i = 0u; i < DOWN; ++i)                          \
                [[unroll]] for (uint step = 0u; step < STEPS; ++step)            \
                    LOAD(held[(p * DOWN + i) * STEPS + step], left,              \
                         p * (plane) + ((row) + OWN_DOWN(i)) * WORDS + step * DEPTH / 4u, WORDS, \
                         gl_CooperativeMatrixLayoutRowMajor);

// The 32 rows of `right` that scores are sums with, on their way into shared memory: a unit of each plane a thread and round.
const uint OWN_UNITS = (COLS * WORDS / 4u + THREADS - 1u) / THREADS;
#define ROWS_ON_THEIR_WAY(fetched, planes) uvec4 fetched[(planes) * OWN_UNITS];
#define EACH_OWN_UNIT(planes, BODY)                                              \
    [[unroll]] for (uint own = 0u; own < OWN_UNITS; ++own) {                     \
        uint unit = THREAD + own * THREADS;                                      \
        if (unit < COLS * WORDS / 4u)                                            \
            [[unroll]] for (uint p = 0u; p < planes; ++p) { BODY }               \
    }
#define FETCH_ROWS(fetched, right, planes, right_row, right_plane)               \
    EACH_OWN_UNIT(planes,                                                        \
        fetched[p * OWN_UNITS + own] = right##_units[(p * (right_plane) + (right_row) * WORDS) / 4u + unit];)
#define PUT_ROWS(fetched, planes)                                                \
    EACH_OWN_UNIT(planes,                                                        \
        put_row((p * COLS + unit / (WORDS / 4u)) * ROW_UNITS + unit % (WORDS / 4u), fetched[p * OWN_UNITS + own]);)

// The sums of the workgroup's rows of `left`, from `row` on, with the 32 rows in shared memory, as floats into the tile of
// scores. An operand of two planes has its lower digits `plane` words behind.
#define MULTIPLY_ROWS(held, left, left_planes, row, left_plane, right_planes)    \
    [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {                              \
        Sums high[DOWN];                                                         \
        Sums low[DOWN];                                                          \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                            \
            high[i] = Sums(NO_SUM);                                              \
            low[i] = Sums(NO_SUM);                                               \
        }                                                                        \
        [[unroll]] for (uint step = 0u; step < STEPS; ++step) {                  \
            Right b;                                                             \
            uint in_tile = OWN_ACROSS(j) * ROW_UNITS * PARTS + AT(step * DEPTH); \
            coopMatLoad(b, turned_tile, in_tile, ROW_UNITS * PARTS, gl_CooperativeMatrixLayoutColumnMajor); \
            Right lower_b = b;                                                   \
            if (right_planes > 1u)                                               \
                coopMatLoad(lower_b, turned_tile, COLS * ROW_UNITS * PARTS + in_tile, ROW_UNITS * PARTS, \
                            gl_CooperativeMatrixLayoutColumnMajor);              \
            [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                        \
                uint of_left = ((row) + OWN_DOWN(i)) * WORDS + step * DEPTH / 4u; \
                Left a;                                                          \
                if (HOLDS) a = held[i * STEPS + step];                           \
                else LOAD(a, left, of_left, WORDS, gl_CooperativeMatrixLayoutRowMajor); \
                Left lower_a = a;                                                \
                if (left_planes > 1u) {                                          \
                    if (HOLDS) lower_a = held[(DOWN + i) * STEPS + step];        \
                    else LOAD(lower_a, left, (left_plane) + of_left, WORDS, gl_CooperativeMatrixLayoutRowMajor); \
                }                                                                \
                high[i] = coopMatMulAdd(a, b, high[i]);                          \
                low[i] = coopMatMulAdd(lower_a, lower_b, low[i]);                \
            }                                                                    \
        }                                                                        \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                            \
            [[unroll]] for (uint e = 0u; e < low[i].length(); ++e)               \
                low[i][e] = floatBitsToInt(whole_sum(high[i][e], low[i][e]));    \
            coopMatStore(low[i], sum_tile,                                       \
                         OWN_DOWN(i) * SUM_UNITS * PARTS + AT(4u * OWN_ACROSS(j)), \
                         SUM_UNITS * PARTS, gl_CooperativeMatrixLayoutRowMajor); \
        }                                                                        \
    }

// Four scores of the thread's row, of columns 4 quad .. 4 quad + 3.
vec4 got_quad(uint quad) { return got(OWN_ROW * SUM_UNITS + quad); }
void put_quad(uint quad, vec4 four) { put(OWN_ROW * SUM_UNITS + quad, floatBitsToUint(four)); }

// The chunk's columns of the digits of 32 rows of `right`: each thread takes a word of four rows, and row d of plane `to` in
// shared memory becomes column d of the chunk, of all 32 rows.
const uint TURNS = COLS / 4u * (CHUNK / 4u);
const uint OWN_TURNS = (TURNS + THREADS - 1u) / THREADS;
#define TRANSPOSED(fetched) uvec4 fetched[OWN_TURNS];
#define FETCH_TRANSPOSED(fetched, right, right_row)                                  \
    [[unroll]] for (uint own = 0u; own < OWN_TURNS; ++own) {                     \
        uint turn = THREAD + own * THREADS;                                      \
        uint word = CHUNK / 4u * chunk + turn / (COLS / 4u);                     \
        uint of_right = ((right_row) + 4u * (turn % (COLS / 4u))) * WORDS + min(word, WORDS - 1u); \
        fetched[own] = uvec4(right[of_right], right[of_right + WORDS],           \
                             right[of_right + 2u * WORDS], right[of_right + 3u * WORDS]); \
    }
#define PUT_TRANSPOSED(to, fetched)                                                  \
    [[unroll]] for (uint own = 0u; own < OWN_TURNS; ++own) {                     \
        uint turn = THREAD + own * THREADS;                                      \
        uvec4 columns = turned(fetched[own]);                                    \
        if (turn < TURNS)                                                        \
            [[unroll]] for (uint c = 0u; c < 4u; ++c)                            \
                put_turned(((to) * CHUNK + turn / (COLS / 4u) * 4u + c) * DIGIT_UNITS * 4u + turn % (COLS / 4u), \
                           columns[c]);                                          \
    }
// The columns of four rows of four bytes.
uvec4 turned(uvec4 rows) {
    uvec2 even = (rows.xz & 0x00ff00ffu) | (rows.yw & 0x00ff00ffu) << 8;
    uvec2 odd = (rows.xz >> 8 & 0x00ff00ffu) | (rows.yw & 0xff00ff00u);
    return uvec4(even.x & 0xffffu | even.y << 16, odd.x & 0xffffu | odd.y << 16,
                 even.x >> 16 | even.y & 0xffff0000u, odd.x >> 16 | odd.y & 0xffff0000u);
}

// Byte `from / 8` of four words.
uint packed_bytes(uvec4 words, int from) {
    u8vec4 bytes = u8vec4(words >> from);
    return pack32(bytes);
}

// Puts the thread's weights into a plane of digits, or two, by the largest magnitude of the row, of which it has `largest`;
// and the factors of their exponent into the row's facts. In a row without an exponent the digits have no meaning: its
// factors are NaN.
void quantise(vec4 weights[OWN_QUADS], bool wide, uint largest) {
    share(largest);
    subgroupBarrier();
    for (uint of_share = 0u; of_share < SHARES; ++of_share) largest = max(largest, shared_fact(of_share));
    int exponent = hlx_row_exponent(largest, wide);
    vec2 scale = hlx_scale(exponent);
    EACH_OWN_QUAD(quad,
        uvec4 bits;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            precise float rounded = hlx_add(hlx_mul(hlx_mul(weights[own][i], scale.x), scale.y), 12582912.0);
            bits[i] = floatBitsToUint(rounded);
        }
        uint at = OWN_ROW * DIGIT_UNITS * 4u + quad;
        put_digits(at, wide ? packed_bytes(bits + 128u, 8) : packed_bytes(bits, 0));
        if (wide) put_digits(ROWS * DIGIT_UNITS * 4u + at, packed_bytes(bits, 0));
    )
    if (OWN_SHARE > 0u) return;
    vec2 factors = hlx_factors(exponent);
    put_row_fact(0u, factors.x);
    put_row_fact(1u, factors.y);
}

// A fact of the rows, at each element of a matrix.
#define LOAD_ROW_FACT(of_rows, i, fact)                                          \
    coopMatLoad(of_rows, row_facts, (fact) * ROWS + OWN_DOWN(i), 0u, gl_CooperativeMatrixLayoutColumnMajor);

// The products of the rows' digits, of one plane or two, with the transposed ones, of one or two: STEP combines `term`, scaled
// by the row's factors, with `sum`, an element of `sums`.
#define ADD_PRODUCTS(sums, planes, turned_planes, STEP) {                        \
    Left a[2u * DOWN * BLOCK_STEPS];                                             \
    [[unroll]] for (uint i = 0u; i < DOWN; ++i)                                  \
        [[unroll]] for (uint step = 0u; step < BLOCK_STEPS; ++step) {            \
            uint of_left = OWN_DOWN(i) * DIGIT_UNITS * PARTS + AT(step * DEPTH); \
            coopMatLoad(a[i * BLOCK_STEPS + step], digit_tile, of_left,          \
                        DIGIT_UNITS * PARTS, gl_CooperativeMatrixLayoutRowMajor); \
            a[(DOWN + i) * BLOCK_STEPS + step] = a[i * BLOCK_STEPS + step];      \
            if (planes > 1u)                                                     \
                coopMatLoad(a[(DOWN + i) * BLOCK_STEPS + step], digit_tile,      \
                            ROWS * DIGIT_UNITS * PARTS + of_left,                \
                            DIGIT_UNITS * PARTS, gl_CooperativeMatrixLayoutRowMajor); \
        }                                                                        \
    Sums of_rows[2u * DOWN];                                                     \
    [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                                \
        LOAD_ROW_FACT(of_rows[i], i, 0u)                                         \
        LOAD_ROW_FACT(of_rows[DOWN + i], i, 1u)                                  \
    }                                                                            \
    [[unroll]] for (uint j = 0u; j < ACROSS_CHUNK; ++j)                          \
        if (CHUNK * chunk + OWN_ACROSS_CHUNK(j) < D) {                           \
            Right b[2u * BLOCK_STEPS];                                           \
            [[unroll]] for (uint step = 0u; step < BLOCK_STEPS; ++step) {        \
                uint of_right = OWN_ACROSS_CHUNK(j) * DIGIT_UNITS * PARTS + AT(step * DEPTH); \
                coopMatLoad(b[step], turned_tile, of_right,                      \
                            DIGIT_UNITS * PARTS, gl_CooperativeMatrixLayoutColumnMajor); \
                b[BLOCK_STEPS + step] = b[step];                                 \
                if (turned_planes > 1u)                                          \
                    coopMatLoad(b[BLOCK_STEPS + step], turned_tile,              \
                                CHUNK * DIGIT_UNITS * PARTS + of_right,          \
                                DIGIT_UNITS * PARTS, gl_CooperativeMatrixLayoutColumnMajor); \
            }                                                                    \
            [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                        \
                Sums high = Sums(NO_SUM);                                        \
                Sums low = Sums(NO_SUM);                                         \
                [[unroll]] for (uint step = 0u; step < BLOCK_STEPS; ++step) {    \
                    high = coopMatMulAdd(a[i * BLOCK_STEPS + step], b[step], high); \
                    low = coopMatMulAdd(a[(DOWN + i) * BLOCK_STEPS + step], b[BLOCK_STEPS + step], low); \
                }                                                                \
                [[unroll]] for (uint e = 0u; e < low.length(); ++e) {            \
                    vec2 of_row = intBitsToFloat(ivec2(of_rows[i][e], of_rows[DOWN + i][e])); \
                    precise float term = folded(whole_sum(high[e], low[e]), of_row); \
                    precise float sum = intBitsToFloat(sums[i * ACROSS_CHUNK + j][e]); \
                    STEP                                                         \
                    sums[i * ACROSS_CHUNK + j][e] = floatBitsToInt(sum);         \
                }                                                                \
            }                                                                    \
        }                                                                        \
}

// The results of the workgroup, 32 columns at a time: into shared memory, and from there FINISH(of_row, d, four), of columns
// d .. d + 3. (A loop over the slices would not be unrolled, and all sums would lie in memory.)
#define FINISH_RESULTS(sums, FINISH)                                             \
    FINISH_SLICE(sums, 0u, FINISH)                                               \
    FINISH_SLICE(sums, 32u, FINISH)                                              \
    if (CHUNK > 64u) {                                                           \
        FINISH_SLICE(sums, 64u, FINISH)                                          \
        FINISH_SLICE(sums, 96u, FINISH)                                          \
    }
#define FINISH_SLICE(sums, column, FINISH)                                       \
    barrier();                                                                   \
    if (HALF_OF_COLUMNS == (column) / (CHUNK / 2u))                              \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i)                              \
            [[unroll]] for (uint j = 0u; j < COLS / SIDE_N; ++j)                 \
                coopMatStore(sums[i * ACROSS_CHUNK + (column) % (CHUNK / 2u) / SIDE_N + j], sum_tile, \
                             OWN_DOWN(i) * SUM_UNITS * PARTS + AT(4u * j * SIDE_N), SUM_UNITS * PARTS, \
                             gl_CooperativeMatrixLayoutRowMajor);                \
    barrier();                                                                   \
    [[dont_unroll]] for (uint at = THREAD; at < ROWS * COLS / 4u; at += THREADS) { \
        uint of_row = at / (COLS / 4u);                                          \
        uint d = CHUNK * chunk + (column) + at % (COLS / 4u) * 4u;               \
        vec4 four = got(of_row * SUM_UNITS + at % (COLS / 4u));                  \
        FINISH                                                                   \
    }

// The workgroup's queries. The last tiles of all heads, which see most keys if attention is causal, go first.
#define OWN_QUERIES                                                              \
    uint own_row = OWN_ROW;                                                      \
    uint tiles = (push.queries + ROWS - 1u) / ROWS;                              \
    if (!find_place(tiles, push.heads)) return;                                  \
    uint row0 = (tiles - 1u - tile) * ROWS;                                      \
    uint n = min(ROWS, push.queries - row0);                                     \
    uvec4 range = own_row < n ? ranges[sample_idx * push.queries + row0 + own_row] : uvec4(0u);\
    uint first_row = stats_base(sample_idx, own_head) + row0;                    \
    uint row = first_row + min(own_row, n - 1u);                                 \
    uint first_key = keys_of(sample_idx, own_head);                              \
    uint plane = query_rows() * WORDS;                                           \
    uint behind_keys = key_rows() * WORDS;

// The factors of a block's keys and values, as facts of its columns.
#define PUT_FACTS_OF_KEYS(first_row)                                             \
    for (uint j = THREAD; j < COLS; j += THREADS) {                              \
        uint key_row = (first_row) + min(j, push.keys - 1u - key0);              \
        vec2 of_key = FACTORS(k, behind_keys, key_row);                          \
        vec2 of_value = FACTORS(v, behind_keys, key_row);                        \
        COLUMN_FACT(0u, j) = of_key.x;                                           \
        COLUMN_FACT(1u, j) = of_key.y;                                           \
        COLUMN_FACT(2u, j) = of_value.x;                                         \
        COLUMN_FACT(3u, j) = of_value.y;                                         \
    }

// The block's keys that the thread's row sees.
#define SEEN_KEYS                                                                \
    uint low = inside ? max(range.y, key0) - key0 : 0u;                          \
    uint high = inside ? max(min(range.z, key0 + COLS), key0) - key0 : 0u;
