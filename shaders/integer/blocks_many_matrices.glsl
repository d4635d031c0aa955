// A product with a weight in blocks (block_product.glsl) of many rows of a, by cooperative matrices. The tile of a workgroup is
// cut among its subgroups. 64 terms pass through shared memory at a time, of the weight as its integers, whose products over a
// group are multiplied by its scale. Groups of 16 terms are shorter than a matrix: with such scales the weight's integers are
// two digits of scale q = 256 upper + lower: S = 65536 (sum of upper a_high) + 256 (sum of upper a_low and of lower a_high) +
// (sum of lower a_low). M is a product of the minima and of three digits of a's sums over groups.
#include "../include/matrices.glsl"
#include "block_product.glsl"
#include "units.glsl"

layout(constant_id = 7) const uint THREADS = 256;
layout(local_size_x_id = 7) in;

// Results of a workgroup, and of each of its subgroups.
layout(constant_id = 10) const uint ROWS = 128;
layout(constant_id = 11) const uint COLUMNS = 64;
layout(constant_id = 12) const uint OWN_ROWS = 32;
layout(constant_id = 13) const uint OWN_COLUMNS = 32;

const uint SUBGROUP = THREADS / (ROWS / OWN_ROWS * (COLUMNS / OWN_COLUMNS));
const uint DOWN = OWN_ROWS / SIDE_M;
const uint ACROSS = OWN_COLUMNS / SIDE_N;

// Units of 16 terms of a step, and their distance from row to row in shared memory: with one of padding, eight rows lie in
// different banks.
const uint STEP = 4u;
const uint STRIDE = STEP + 1u;
const uint STEPS = CHUNK / (16u * STEP);
const bool IS_SCALED = HAS_SCALES && GROUP == 32u;
const uint DIGITS = HAS_SCALES && !IS_SCALED ? 2u : 1u;
const uint B_AT = 2u * ROWS;
UNITS(staging, (B_AT + DIGITS * COLUMNS) * STRIDE);

// Of the columns, the scales of a step's groups.
const uint STEP_GROUPS = 16u * STEP / GROUP;
// Matrices along a group.
const uint GROUP_DEPTHS = GROUP > DEPTH ? GROUP / DEPTH : 1u;
shared int of_groups[IS_SCALED ? STEP_GROUPS * COLUMNS : 1u];

// Of the columns, d and dmin of each block of a chunk.
const uint FACTORS = BLOCKS_OF_CHUNK * COLUMNS;
shared int of_columns[2u * FACTORS];

// Of the rows, the sums over a block's groups, and of the columns their minima. As matrices they have room for a multiple of
// DEPTH; places without a group have a minimum of 0.
const bool HAS_GROUPS = HAS_MINS && HAS_SCALES;
const uint SUMS = STEP_GROUPS > GROUPS ? STEP_GROUPS : GROUPS;
shared int group_sums[HAS_MINS ? SUMS * ROWS : 1u];
const uint PLACES = DEPTH > 16u ? DEPTH : 16u;
const uint MINS_STRIDE = PLACES / 16u + 1u;
UNITS(mins, HAS_GROUPS ? COLUMNS * MINS_STRIDE : 1u);

// Results on their way out: the rows of a matrix of each subgroup.
const uint RESULT_STRIDE = OWN_COLUMNS / 4u + 1u;

// What a thread has on its way: units of a, of the weight as it is stored, and a chunk's minima and factors.
const uint LOADS_OF_A = 2u * ROWS * STEP / THREADS;
const uint LOADS_OF_B = COLUMNS * STEP / THREADS;
const uint LAST_WORDS = CHUNK_WORDS - MINS_AT;
const uint LOADS_OF_LAST = (COLUMNS * LAST_WORDS + THREADS - 1u) / THREADS;

// Where a load of a goes: its line and its unit. Eight threads that store at a time meet different banks.
uvec2 place_of(uint load) {
    return uvec2(load / 32u * 8u + load / 8u % 4u + load / 4u % 2u * 4u, load % STEP);
}

// The digits of four integers times a scale.
uvec2 digits_of(uint integers, int scale) {
    // Two terms per word: scale (q - OFFSET) + 128, so that the lower digit has its sign, + 8192, so that none is below zero.
    uint more = 0x20802080u - OFFSET * uint(scale) * 0x00010001u;
    uint even = (integers & 0x00ff00ffu) * uint(scale) + more;
    uint odd = (integers >> 8 & 0x00ff00ffu) * uint(scale) + more;
    uint lower = (even & 0x00ff00ffu) | (odd & 0x00ff00ffu) << 8;
    uint upper = (even >> 8 & 0x00ff00ffu) | (odd & 0xff00ff00u);
    return uvec2((upper + 0x60606060u) ^ 0x80808080u, lower ^ 0x80808080u);
}
// Four integers without a scale.
uint signed_of(uint integers) {
    return LOW_BITS == 8u || IS_NF4 ? integers : (integers + 0x80808080u - OFFSET * 0x01010101u) ^ 0x80808080u;
}

// Stores the factors of a chunk's word of a column.
void put_factors(uint word, uint index, uint column) {
    if (HAS_MINS) {
        ivec2 factors = floatBitsToInt(factors_of(word, 0u));
        of_columns[index * COLUMNS + column] = factors.x;
        of_columns[FACTORS + index * COLUMNS + column] = factors.y;
    } else {
        [[unroll]] for (uint block = 0u; block < BLOCKS_OF_CHUNK; ++block)
            of_columns[block * COLUMNS + column] = floatBitsToInt(sum_factors(word, block).x);
    }
}

// Adds up a's groups of a step: of GROUPS per block, or one per block.
void sum_groups(uint step) {
    for (uint i = gl_LocalInvocationIndex; i < STEP_GROUPS * ROWS; i += THREADS) {
        uint row = i % ROWS;
        uint group = i / ROWS;
        int high = 0;
        int low = 0;
        [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j) {
            uint unit = group * UNITS_OF_GROUP + j;
            high += dot_of(GOT(staging, row * STRIDE + unit), ONES);
            low += dot_of(GOT(staging, (ROWS + row) * STRIDE + unit), ONES);
        }
        group_sums[(step * STEP_GROUPS + group) * ROWS + row] = 256 * high + low;
    }
}

// Cuts a block's sums over groups into three digits, where a's lay.
void cut_group_sums() {
    for (uint i = gl_LocalInvocationIndex; i < ROWS * GROUPS / 4u; i += THREADS) {
        uint row = i % ROWS;
        uint word = i / ROWS;
        uvec3 digits = uvec3(0u);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            int sum = group_sums[(4u * word + j) * ROWS + row];
            int middle = (sum + 128) >> 8;
            uvec3 digit = uvec3(sum, middle, (middle + 128) >> 8);
            digits |= (digit & 255u) << (8u * j);
        }
        [[unroll]] for (uint digit = 0u; digit < 3u; ++digit)
            PUT_WORD(staging, (digit * ROWS + row) * MINS_STRIDE, word, digits[digit]);
    }
}

// Fetches what step `step` of the row stages.
#define FETCH(step)                                                                                             \
    {                                                                                                           \
        uint fetched = step;                                                                                    \
        uint chunk = fetched / STEPS;                                                                           \
        [[unroll]] for (uint l = 0u; l < LOADS_OF_A; ++l) of_a[l] = a[at_unit[l] + fetched * STEP];             \
        [[unroll]] for (uint l = 0u; l < LOADS_OF_B; ++l) {                                                     \
            uint unit = fetched % STEPS * STEP + (gl_LocalInvocationIndex + l * THREADS) / COLUMNS;             \
            uint at = at_column[l] + chunk * (CHUNK_WORDS * PANEL);                                             \
            low[l] = unit_low(at, unit);                                                                        \
            high[l] = unit_high(at, unit);                                                                      \
            scales[l] = HAS_SCALES ? block_scale(at, unit / UNITS_OF_GROUP) : 1;                                \
        }                                                                                                       \
        [[unroll]] for (uint l = 0u; l < LOADS_OF_LAST; ++l) {                                                  \
            uint at = at_last[l] + chunk * (CHUNK_WORDS * PANEL);                                               \
            last[l] = block_word(at, MINS_AT + min((gl_LocalInvocationIndex + l * THREADS) / COLUMNS, LAST_WORDS - 1u)); \
        }                                                                                                       \
    }

// Joins the sums of a chunk's block to the chains.
#define JOIN(block)                                                                                             \
    [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {                                                             \
        Sums d;                                                                                                 \
        Sums dmin;                                                                                              \
        coopMatLoad(d, of_columns, (block) * COLUMNS + own_n + j * SIDE_N, 0u, gl_CooperativeMatrixLayoutRowMajor); \
        coopMatLoad(dmin, of_columns, FACTORS + (block) * COLUMNS + own_n + j * SIDE_N, 0u,                     \
                    gl_CooperativeMatrixLayoutRowMajor);                                                        \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                                                           \
            Sums least[3];                                                                                      \
            [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) least[digit] = Sums(0);                       \
            if (HAS_GROUPS) {                                                                                   \
                [[unroll]] for (uint k = 0u; k < PLACES; k += DEPTH) {                                          \
                    Right right;                                                                                \
                    coopMatLoad(right, mins, AT((own_n + j * SIDE_N) * MINS_STRIDE, k), ROW(MINS_STRIDE),       \
                                gl_CooperativeMatrixLayoutColumnMajor);                                         \
                    [[unroll]] for (uint digit = 0u; digit < 3u; ++digit) {                                     \
                        Left left;                                                                              \
                        coopMatLoad(left, staging, AT((digit * ROWS + own_m + i * SIDE_M) * MINS_STRIDE, k),    \
                                    ROW(MINS_STRIDE), gl_CooperativeMatrixLayoutRowMajor);                           \
                        least[digit] = coopMatMulAdd(left, right, least[digit]);                                \
                    }                                                                                           \
                }                                                                                               \
            } else if (HAS_MINS) {                                                                              \
                coopMatLoad(least[0], group_sums, (block) * ROWS + own_m + i * SIDE_M, 0u,                      \
                            gl_CooperativeMatrixLayoutColumnMajor);                                             \
            }                                                                                                   \
            uint own = i * ACROSS + j;                                                                          \
            [[unroll]] for (uint e = 0u; e < chains[own].length(); ++e) {                                       \
                int upper = DIGITS == 2u ? 256 * top[own][e] + middle[own][e] : middle[own][e];                 \
                float sum = hlx_float_of_sums(upper, bottom[own][e]);                                           \
                float of_mins = float_of(65536 * least[2][e] + 256 * least[1][e] + least[0][e]);                \
                vec2 factors = intBitsToFloat(ivec2(d[e], dmin[e]));                                            \
                chains[own][e] =                                                                                \
                    floatBitsToInt(behind_block(intBitsToFloat(chains[own][e]), sum, of_mins, factors));        \
            }                                                                                                   \
        }                                                                                                       \
    }

// Adds the products of a step's group, times its scales.
#define ADD_GROUP(group)                                                                                        \
    Sums scale[ACROSS];                                                                                         \
    Right right[ACROSS * GROUP_DEPTHS];                                                                         \
    [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {                                                             \
        coopMatLoad(scale[j], of_groups, (group) * COLUMNS + own_n + j * SIDE_N, 0u,                            \
                    gl_CooperativeMatrixLayoutRowMajor);                                                        \
        [[unroll]] for (uint k = 0u; k < GROUP_DEPTHS; ++k)                                                     \
            coopMatLoad(right[j * GROUP_DEPTHS + k], staging,                                                   \
                        AT((B_AT + own_n + j * SIDE_N) * STRIDE, (group) * GROUP + k * DEPTH), ROW(STRIDE),     \
                        gl_CooperativeMatrixLayoutColumnMajor);                                                 \
    }                                                                                                           \
    [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                                                               \
        Left upper[GROUP_DEPTHS];                                                                               \
        Left lower[GROUP_DEPTHS];                                                                               \
        [[unroll]] for (uint k = 0u; k < GROUP_DEPTHS; ++k) {                                                   \
            uint from = AT((own_m + i * SIDE_M) * STRIDE, (group) * GROUP + k * DEPTH);                         \
            coopMatLoad(upper[k], staging, from, ROW(STRIDE), gl_CooperativeMatrixLayoutRowMajor);              \
            coopMatLoad(lower[k], staging, from + ROW(ROWS * STRIDE), ROW(STRIDE),                              \
                        gl_CooperativeMatrixLayoutRowMajor);                                                    \
        }                                                                                                       \
        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {                                                         \
            Sums of_upper = Sums(0);                                                                            \
            Sums of_lower = Sums(0);                                                                            \
            [[unroll]] for (uint k = 0u; k < GROUP_DEPTHS; ++k) {                                               \
                of_upper = coopMatMulAdd(upper[k], right[j * GROUP_DEPTHS + k], of_upper);                      \
                of_lower = coopMatMulAdd(lower[k], right[j * GROUP_DEPTHS + k], of_lower);                      \
            }                                                                                                   \
            uint own = i * ACROSS + j;                                                                          \
            [[unroll]] for (uint e = 0u; e < middle[own].length(); ++e) {                                       \
                middle[own][e] += scale[j][e] * of_upper[e];                                                    \
                bottom[own][e] += scale[j][e] * of_lower[e];                                                    \
            }                                                                                                   \
        }                                                                                                       \
    }

#define CLEAR(sums) [[unroll]] for (uint i = 0u; i < DOWN * ACROSS; ++i) sums[i] = Sums(0);

void main() {
    DECLARE_PRODUCT(ROWS, COLUMNS)
    // Workgroups that follow each other share columns of the weight.
    if (!locate(product, hlx_group() % down, hlx_group() / down % across, ROWS, COLUMNS)) return;
    uint own_m = gl_SubgroupID / (COLUMNS / OWN_COLUMNS) * OWN_ROWS;
    uint own_n = gl_SubgroupID % (COLUMNS / OWN_COLUMNS) * OWN_COLUMNS;
    uint results = gl_SubgroupID * SIDE_M * RESULT_STRIDE;
    uint chunks = chunks_of_row();

    // Where a thread's loads lie, and what is on its way.
    uint at_unit[LOADS_OF_A];
    uint at_column[LOADS_OF_B];
    uint at_last[LOADS_OF_LAST];
    [[unroll]] for (uint l = 0u; l < LOADS_OF_A; ++l) {
        uvec2 place = place_of(gl_LocalInvocationIndex + l * THREADS);
        at_unit[l] = unit_of_a(row_of_a(place.x % ROWS), place.x / ROWS, place.y);
    }
    [[unroll]] for (uint l = 0u; l < LOADS_OF_B; ++l)
        at_column[l] = chunk_at(row_of_b((gl_LocalInvocationIndex + l * THREADS) % COLUMNS), 0u, chunks);
    [[unroll]] for (uint l = 0u; l < LOADS_OF_LAST; ++l)
        at_last[l] = chunk_at(row_of_b((gl_LocalInvocationIndex + l * THREADS) % COLUMNS), 0u, chunks);
    uvec4 of_a[LOADS_OF_A];
    uvec4 low[LOADS_OF_B];
    uint high[LOADS_OF_B];
    int scales[LOADS_OF_B];
    uint last[LOADS_OF_LAST];

    if (HAS_GROUPS)
        for (uint i = gl_LocalInvocationIndex; i < COLUMNS * MINS_STRIDE; i += THREADS) PUT(mins, i, uvec4(0u))
    barrier();
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        Sums chains[DOWN * ACROSS];
        Sums top[DOWN * ACROSS];
        Sums middle[DOWN * ACROSS];
        Sums bottom[DOWN * ACROSS];
        CLEAR(chains)
        uint first_chunk = piece * PIECE_CHUNKS;
        uint end_chunk = min(first_chunk + PIECE_CHUNKS, chunks);
        if (first_chunk < end_chunk) FETCH(first_chunk * STEPS)
        [[dont_unroll]] for (uint chunk = first_chunk; chunk < end_chunk; ++chunk) {
            if (BLOCK == CHUNK) {
                CLEAR(top)
                CLEAR(middle)
                CLEAR(bottom)
            }
            [[dont_unroll]] for (uint step = 0u; step < STEPS; ++step) {
                [[unroll]] for (uint l = 0u; l < LOADS_OF_A; ++l) {
                    uvec2 place = place_of(gl_LocalInvocationIndex + l * THREADS);
                    PUT(staging, place.x * STRIDE + place.y, of_a[l])
                }
                [[unroll]] for (uint l = 0u; l < LOADS_OF_B; ++l) {
                    uint load = gl_LocalInvocationIndex + l * THREADS;
                    uvec4 digits[2];
                    [[unroll]] for (uint quad = 0u; quad < 4u; ++quad) {
                        uint integers = quad_of(low[l], high[l], load / COLUMNS, quad);
                        uvec2 both = DIGITS == 2u ? digits_of(integers, scales[l]) : uvec2(signed_of(integers));
                        digits[0][quad] = both.x;
                        digits[1][quad] = both.y;
                    }
                    uint to = (B_AT + load % COLUMNS) * STRIDE + load / COLUMNS;
                    PUT(staging, to, digits[0])
                    if (DIGITS == 2u) PUT(staging, to + COLUMNS * STRIDE, digits[1])
                    if (IS_SCALED) of_groups[load / COLUMNS / UNITS_OF_GROUP * COLUMNS + load % COLUMNS] = scales[l];
                }
                [[unroll]] for (uint l = 0u; l < LOADS_OF_LAST; ++l) {
                    uint load = gl_LocalInvocationIndex + l * THREADS;
                    uint column = load % COLUMNS;
                    uint word = load / COLUMNS;
                    if (HAS_GROUPS && word < SCALE_WORDS) PUT_WORD(mins, column * MINS_STRIDE, word, last[l]);
                    else if (word < LAST_WORDS)
                        put_factors(last[l], word - (HAS_GROUPS ? SCALE_WORDS : 0u), column);
                }
                barrier();
                // (The last step's is loaded once more: a branch would keep the loads from their place among the products.)
                FETCH(min(chunk * STEPS + step + 1u, end_chunk * STEPS - 1u))
                if (HAS_MINS) sum_groups(BLOCK == CHUNK ? step : 0u);
                if (HAS_MINS && BLOCK != CHUNK) barrier();
                if (IS_SCALED) {
                    [[unroll]] for (uint group = 0u; group < STEP_GROUPS; ++group) { ADD_GROUP(group) }
                } else
                [[unroll]] for (uint block = 0u; block < BLOCKS_OF_CHUNK; ++block) {
                    if (BLOCK != CHUNK) {
                        CLEAR(middle)
                        CLEAR(bottom)
                    }
                    const uint terms = 16u * STEP / BLOCKS_OF_CHUNK;
                    [[unroll]] for (uint k = 0u; k < terms; k += DEPTH) {
                        uint byte = block * terms + k;
                        Right upper[ACROSS];
                        Right lower[ACROSS];
                        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
                            uint from = AT((B_AT + own_n + j * SIDE_N) * STRIDE, byte);
                            coopMatLoad(upper[j], staging, from, ROW(STRIDE), gl_CooperativeMatrixLayoutColumnMajor);
                            if (DIGITS == 2u)
                                coopMatLoad(lower[j], staging, from + ROW(COLUMNS * STRIDE), ROW(STRIDE),
                                            gl_CooperativeMatrixLayoutColumnMajor);
                        }
                        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
                            Left left;
                            uint from = AT((own_m + i * SIDE_M) * STRIDE, byte);
                            coopMatLoad(left, staging, from, ROW(STRIDE), gl_CooperativeMatrixLayoutRowMajor);
                            [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
                                uint own = i * ACROSS + j;
                                if (DIGITS == 2u) {
                                    top[own] = coopMatMulAdd(left, upper[j], top[own]);
                                    middle[own] = coopMatMulAdd(left, lower[j], middle[own]);
                                } else {
                                    middle[own] = coopMatMulAdd(left, upper[j], middle[own]);
                                }
                            }
                            coopMatLoad(left, staging, from + ROW(ROWS * STRIDE), ROW(STRIDE),
                                        gl_CooperativeMatrixLayoutRowMajor);
                            [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
                                uint own = i * ACROSS + j;
                                if (DIGITS == 2u) {
                                    middle[own] = coopMatMulAdd(left, upper[j], middle[own]);
                                    bottom[own] = coopMatMulAdd(left, lower[j], bottom[own]);
                                } else {
                                    bottom[own] = coopMatMulAdd(left, upper[j], bottom[own]);
                                }
                            }
                        }
                    }
                    if (BLOCK != CHUNK) { JOIN(block) }
                }
                barrier();
            }
            if (BLOCK == CHUNK) {
                if (HAS_GROUPS) {
                    cut_group_sums();
                    barrier();
                }
                JOIN(0u)
                barrier();
            }
        }

        // Results pass through shared memory to where their row and column are known.
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
            [[unroll]] for (uint j = 0u; j < ACROSS; ++j)
                coopMatStore(chains[i * ACROSS + j], staging, AT(results, 4u * j * SIDE_N), ROW(RESULT_STRIDE),
                             gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            [[dont_unroll]] for (uint at = gl_LocalInvocationIndex % SUBGROUP; at < SIDE_M * OWN_COLUMNS / 4u;
                                 at += SUBGROUP) {
                uint row = at / (OWN_COLUMNS / 4u);
                uint column = at % (OWN_COLUMNS / 4u);
                uint m = own_m + i * SIDE_M + row;
                vec2 of_row = hlx_factors(a_exponents[row_of_a(m) * pieces() + piece]);
                vec4 four = uintBitsToFloat(GOT(staging, results + row * RESULT_STRIDE + column));
                [[unroll]] for (uint l = 0u; l < 4u; ++l) four[l] = hlx_result_of_sum(four[l], of_row, vec2(1.0));
                finish(four, piece, m, own_n + 4u * column);
            }
            subgroupBarrier();
        }
        barrier();
    }
}
