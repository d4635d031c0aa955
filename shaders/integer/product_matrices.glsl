// The product of prepared operands (finish.glsl) by cooperative matrices of 8-bit integers, of any shape that a device
// lists: a workgroup's tile of results is cut among its subgroups, and each has its part as matrices for either digit of a,
// which share the loads of b.
//
// Some terms pass through shared memory at a time; the next ones are on their way into registers meanwhile. Shared memory
// is an array of units of 16 bytes, or with WORDS, for matrices of less depth, of words.
#include "../include/matrices.glsl"
#include "finish.glsl"

layout(constant_id = 7) const uint THREADS = 128;
layout(local_size_x_id = 7) in;

// Results of a workgroup, and of each of its subgroups.
layout(constant_id = 10) const uint ROWS = 64;
layout(constant_id = 11) const uint COLUMNS = 128;
layout(constant_id = 12) const uint OWN_ROWS = 32;
layout(constant_id = 13) const uint OWN_COLUMNS = 64;
// Units of 16 digits of a row in shared memory, 4 or 8.
layout(constant_id = 14) const uint STEP = 4;

const uint SUBGROUP = THREADS / (ROWS / OWN_ROWS * (COLUMNS / OWN_COLUMNS));
const uint DOWN = OWN_ROWS / SIDE_M;
const uint ACROSS = OWN_COLUMNS / SIDE_N;

// Units from row to row in shared memory: with one of padding, eight rows lie in different banks.
const uint STRIDE = STEP + 1u;
const uint LINES = 2u * ROWS + COLUMNS;
const uint LOADS = LINES * STEP / THREADS;
// Results on their way out: the rows of a matrix of each subgroup.
const uint RESULT_STRIDE = OWN_COLUMNS / 4u + 1u;
const uint OWN_RESULTS = SIDE_M * RESULT_STRIDE;

#ifdef WORDS
#define PARTS 4u
shared uint staging[LINES * STRIDE * PARTS];
void put(uint unit, uvec4 v) { for (uint i = 0u; i < PARTS; ++i) staging[PARTS * unit + i] = v[i]; }
uvec4 got(uint unit) {
    uint at = PARTS * unit;
    return uvec4(staging[at], staging[at + 1u], staging[at + 2u], staging[at + 3u]);
}
#else
#define PARTS 1u
shared uvec4 staging[LINES * STRIDE];
void put(uint unit, uvec4 v) { staging[unit] = v; }
uvec4 got(uint unit) { return staging[unit]; }
#endif
// Where this many bytes lie in a row of staging, and the step from row to row.
#define AT(bytes) ((bytes) * PARTS / 16u)
#define ROW (STRIDE * PARTS)

// The first and the second factors of the rows and columns.
const uint SCALED = ROWS + COLUMNS;
shared int factors[2u * SCALED];

// As the words of matrices.
layout(set = 0, binding = 4) readonly buffer BiasBits { int bias_bits[]; };
layout(set = 0, binding = 5) readonly buffer ExtraBits { int extra_bits[]; };
layout(set = 0, binding = 6) buffer CBits { int c_bits[]; };

// Moves a matrix from or to where C, or what is like it, holds it.
#define MOVE_IN_C(MOVE, matrix, buffer, at)                                                   \
    if (TURNED) MOVE(matrix, buffer, at, push.c_row, gl_CooperativeMatrixLayoutColumnMajor);  \
    else MOVE(matrix, buffer, at, push.c_row, gl_CooperativeMatrixLayoutRowMajor);

// Where a thread's units of a step lie, and the units on their way. Rows past an edge repeat the last one, and are not stored.
const uint LOADS_OF_A = 2u * ROWS * STEP / THREADS;
#define FETCH(step)                                                                         \
    [[unroll]] for (uint l = 0u; l < LOADS; ++l)                                            \
        staged[l] = l < LOADS_OF_A ? a[at_unit[l] + (step) * a_step] : b[at_unit[l] + (step) * b_step];

// Where a load goes: its line and its unit of the line, in the shared memory of an operand of so many planes of rows. Loads that
// follow each other read units that follow each other in memory, and eight threads that store at a time meet different banks.
uvec2 place_of(uint load, uint planes, uint rows, bool in_pieces) {
    if (!in_pieces)
        return uvec2(STEP == 4u ? load / 32u * 8u + load / 8u % 4u + load / 4u % 2u * 4u : load / STEP, load % STEP);
    uint piece = load / 32u % (planes * rows / 16u);
    uint line = piece % planes * rows + piece / planes * 16u + load % 16u;
    return uvec2(line, load / (planes * rows * 2u) * 2u + load / 16u % 2u);
}

// Workgroups that follow each other share rows of a, or columns of b, in blocks of eight rows of tiles.
uvec2 place(uint group, uint down, uint across) {
    const uint TALL = 8u;
    uint first = group / (TALL * across) * TALL;
    uint tall = min(TALL, down - first);
    uint within = group % (TALL * across);
    return uvec2(first + within % tall, within / tall);
}

int added(int x, int y, bool is_bias) {
    precise float sum = hlx_add(intBitsToFloat(x), intBitsToFloat(y));
    return floatBitsToInt(is_bias ? hlx_pos0(sum) : sum);
}

void main() {
    DECLARE_PRODUCT(ROWS, COLUMNS)
    uvec2 own = place(hlx_group() % (across * down), down, across);
    if (!locate(product, own.x, own.y, ROWS, COLUMNS)) return;
    uint own_m = gl_SubgroupID / (COLUMNS / OWN_COLUMNS) * OWN_ROWS;
    uint own_n = gl_SubgroupID % (COLUMNS / OWN_COLUMNS) * OWN_COLUMNS;
    uint results = gl_SubgroupID * OWN_RESULTS;
    // Matrices go to C as they are.
    bool is_whole = VECTORS && tile.first_piece + 1u == tile.end_piece && tile.a_first + ROWS <= tile.a_end &&
        tile.b_first + COLUMNS <= tile.b_end;

    // Of each load, where its unit of the first step is, and where it goes.
    uint at_unit[LOADS];
    uint at_shared[LOADS];
    [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
        uint load = gl_LocalInvocationIndex + l * THREADS;
        if (l < LOADS_OF_A) {
            uvec2 place = place_of(load, 2u, ROWS, A_IN_PIECES);
            at_unit[l] = unit_of_a(row_of_a(place.x % ROWS), place.x / ROWS, place.y);
            at_shared[l] = place.x * STRIDE + place.y;
        } else {
            uvec2 place = place_of(load - 2u * ROWS * STEP, 1u, COLUMNS, B_IN_PIECES);
            at_unit[l] = unit_of_b(row_of_b(place.x), place.y);
            at_shared[l] = (2u * ROWS + place.x) * STRIDE + place.y;
        }
    }
    // The units from one step to the next.
    uint a_step = A_IN_PIECES ? hlx_blocks(rows_of_a()) * 32u * STEP : STEP;
    uint b_step = B_IN_PIECES ? hlx_blocks(push.b_rows) * 16u * STEP : STEP;
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        Sums high[DOWN * ACROSS];
        Sums low[DOWN * ACROSS];
        [[unroll]] for (uint i = 0u; i < DOWN * ACROSS; ++i) {
            high[i] = Sums(0);
            low[i] = Sums(0);
        }
        uvec4 staged[LOADS];
        uvec2 units = units_of(piece);
        uint steps = units.y / STEP;
        if (units.x < units.y) { FETCH(units.x / STEP) }
        // The factors of the workgroup's rows and columns, while the first step is on its way.
        for (uint at = gl_LocalInvocationIndex; at < SCALED; at += THREADS) {
            int exponent = at < ROWS ? a_exponents[row_of_a(at) * pieces() + piece]
                                     : b_exponents[row_of_b(at - ROWS) * pieces() + piece];
            ivec2 own_factors = floatBitsToInt(hlx_factors(exponent));
            factors[at] = own_factors.x;
            factors[SCALED + at] = own_factors.y;
        }
        [[dont_unroll]] for (uint step = units.x / STEP; step < steps; ++step) {
            [[unroll]] for (uint l = 0u; l < LOADS; ++l) put(at_shared[l], staged[l]);
            barrier();
            // (The last step's is loaded once more: a branch would keep the loads from their place among the products.)
            FETCH(min(step + 1u, steps - 1u))
            [[unroll]] for (uint k = 0u; k < 16u * STEP; k += DEPTH) {
                Right right[ACROSS];
                [[unroll]] for (uint j = 0u; j < ACROSS; ++j)
                    coopMatLoad(right[j], staging, (2u * ROWS + own_n + j * SIDE_N) * ROW + AT(k), ROW,
                                gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
                    Left left;
                    coopMatLoad(left, staging, (own_m + i * SIDE_M) * ROW + AT(k), ROW,
                                gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint j = 0u; j < ACROSS; ++j)
                        high[i * ACROSS + j] = coopMatMulAdd(left, right[j], high[i * ACROSS + j]);
                    coopMatLoad(left, staging, (ROWS + own_m + i * SIDE_M) * ROW + AT(k), ROW,
                                gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint j = 0u; j < ACROSS; ++j)
                        low[i * ACROSS + j] = coopMatMulAdd(left, right[j], low[i * ACROSS + j]);
                }
            }
            barrier();
        }

        // (Without a step nobody has waited for the factors.)
        barrier();
        // Which element of a matrix a thread has is the driver's choice, the same in all matrices of a kind. Loaded with a stride
        // of zero, a matrix has the factor of its row, or of its column, in each place.
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
            Sums of_rows[2];
            [[unroll]] for (uint part = 0u; part < 2u; ++part)
                coopMatLoad(of_rows[part], factors, part * SCALED + own_m + i * SIDE_M, 0u,
                            gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
                Sums of_columns[2];
                [[unroll]] for (uint part = 0u; part < 2u; ++part)
                    coopMatLoad(of_columns[part], factors, part * SCALED + ROWS + own_n + j * SIDE_N, 0u,
                                gl_CooperativeMatrixLayoutRowMajor);
                Sums bits = high[i * ACROSS + j];
                [[unroll]] for (uint e = 0u; e < bits.length(); ++e) {
                    float sum = hlx_float_of_sums(bits[e], low[i * ACROSS + j][e]);
                    vec2 of_row = intBitsToFloat(ivec2(of_rows[0][e], of_rows[1][e]));
                    vec2 of_column = intBitsToFloat(ivec2(of_columns[0][e], of_columns[1][e]));
                    bits[e] = floatBitsToInt(hlx_result_of_sum(sum, of_row, of_column));
                }
                if (is_whole) {
                    uint at = place_in_c(own_m + i * SIDE_M, own_n + j * SIDE_N);
                    if (HAS_BIAS) {
                        Sums other;
                        coopMatLoad(other, bias_bits, tile.b_first + own_n + j * SIDE_N, 0u,
                                    gl_CooperativeMatrixLayoutRowMajor);
                        [[unroll]] for (uint e = 0u; e < bits.length(); ++e)
                            bits[e] = added(bits[e], other[e], true);
                    }
                    if (adds_last(piece)) {
                        Sums other;
                        if (ADDS == 1u) { MOVE_IN_C(coopMatLoad, other, extra_bits, at) }
                        else { MOVE_IN_C(coopMatLoad, other, c_bits, at) }
                        [[unroll]] for (uint e = 0u; e < bits.length(); ++e)
                            bits[e] = added(bits[e], other[e], false);
                    }
                    MOVE_IN_C(coopMatStore, bits, c_bits, at)
                }
                // (A `continue` above would keep this loop from being unrolled, and all sums in memory.)
                if (!is_whole)
                    coopMatStore(bits, staging, results * PARTS + AT(4u * j * SIDE_N), RESULT_STRIDE * PARTS,
                                 gl_CooperativeMatrixLayoutRowMajor);
            }
            // At an edge and with several pieces, results pass through shared memory to where their row and column are
            // known.
            if (!is_whole) {
                subgroupBarrier();
                [[dont_unroll]] for (uint at = gl_LocalInvocationIndex % SUBGROUP; at < SIDE_M * OWN_COLUMNS / 4u;
                                     at += SUBGROUP) {
                    uint row = at / (OWN_COLUMNS / 4u);
                    uint column = at % (OWN_COLUMNS / 4u);
                    vec4 of_row = uintBitsToFloat(got(results + row * RESULT_STRIDE + column));
                    finish(of_row, piece, own_m + i * SIDE_M + row, own_n + column * 4u);
                }
                subgroupBarrier();
            }
        }
        barrier();
    }
}
