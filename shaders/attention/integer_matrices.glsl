// Attention over ranges by cooperative matrices of 8-bit integers, of any shape that a device lists whose sides divide 32:
// what its kernels share. A workgroup is one subgroup, with as many rows as threads, and a thread has a row: a query, or a key
// where the including file sums over queries. Blocks have 32 columns: keys, or queries.
//
// Matrices are loaded from the operands as they lie in memory. Sums pass through shared memory to the threads of their rows,
// and the digits of weights from there into matrices. With NARROW, for matrices of less than 16 terms, shared memory and
// operands are arrays of words, else of units of 16 bytes.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#include "integer_operands.glsl"

// The matrices' rows, columns and terms, and the threads of the subgroup.
layout(constant_id = 4) const uint SIDE_M = 16;
layout(constant_id = 5) const uint SIDE_N = 16;
layout(constant_id = 6) const uint DEPTH = 32;
layout(constant_id = 7) const uint ROWS = 32;
layout(local_size_x_id = 7) in;

const uint DOWN = ROWS / SIDE_M;
const uint ACROSS = COLS / SIDE_N;

#define Left coopmat<int8_t, gl_ScopeSubgroup, SIDE_M, DEPTH, gl_MatrixUseA>
#define Right coopmat<int8_t, gl_ScopeSubgroup, DEPTH, SIDE_N, gl_MatrixUseB>
#define Sums coopmat<int, gl_ScopeSubgroup, SIDE_M, SIDE_N, gl_MatrixUseAccumulator>

// Of a row in shared memory: the units of its sums, and of its digits in a plane, with one of padding each.
const uint SUM_UNITS = COLS / 4u + 1u;
const uint DIGIT_UNITS = COLS / 16u + 1u;

#ifdef NARROW
#define PARTS 4u
shared uint sum_tile[ROWS * SUM_UNITS * PARTS];
shared uint digit_tile[2u * ROWS * DIGIT_UNITS * PARTS];
ivec4 sums_at(uint unit) {
    uint at = PARTS * unit;
    return ivec4(sum_tile[at], sum_tile[at + 1u], sum_tile[at + 2u], sum_tile[at + 3u]);
}
void put_digits(uint unit, uvec4 digits) {
    for (uint i = 0u; i < PARTS; ++i) digit_tile[PARTS * unit + i] = digits[i];
}
#define LOAD(matrix, operand, word, stride, layout_) coopMatLoad(matrix, operand, word, stride, layout_)
#else
#define PARTS 1u
shared uvec4 sum_tile[ROWS * SUM_UNITS];
shared uvec4 digit_tile[2u * ROWS * DIGIT_UNITS];
ivec4 sums_at(uint unit) { return ivec4(sum_tile[unit]); }
void put_digits(uint unit, uvec4 digits) { digit_tile[unit] = digits; }
#define LOAD(matrix, operand, word, stride, layout_) \
    coopMatLoad(matrix, operand##_units, (word) / 4u, (stride) / 4u, layout_)
#endif
// Where so many bytes lie in a row of shared memory.
#define AT(bytes) ((bytes) * PARTS / 16u)

layout(set = 0, binding = 0) readonly restrict buffer QUnits { uvec4 q_units[]; };
layout(set = 0, binding = 1) readonly restrict buffer KUnits { uvec4 k_units[]; };
layout(set = 0, binding = 2) readonly restrict buffer VUnits { uvec4 v_units[]; };

// (the document's first key, begin, end, the position) of each row (ranges.glsl).
shared uvec4 tile_ranges[ROWS];

// The segment at hand: rows that belong to one document, and the columns that any of them sees.
uint segment_end;
uint origin;
uint first_seen;
uint end_seen;

void find_segment(uint start) {
    segment_end = start;
    origin = tile_ranges[start].x;
    first_seen = 0xffffffffu;
    end_seen = 0u;
    while (segment_end < ROWS && tile_ranges[segment_end].x == origin) {
        uvec4 range = tile_ranges[segment_end];
        if (range.y < range.z) {
            first_seen = min(first_seen, range.y);
            end_seen = max(end_seen, range.z);
        }
        ++segment_end;
    }
    if (first_seen >= end_seen) first_seen = end_seen;
}

// The sums of the workgroup's rows of `left`, from row left_row on, with 32 rows of `right`: into shared memory, 256 times
// those of the upper digits and those of the lower ones. Of a wide operand the lower digits are left_plane or
// right_plane words further; of a narrow one 0 words. They are below 2^31, as heads have at most 256 columns.
#define MULTIPLY_ROWS(left, left_row, left_plane, right, right_row, right_plane)  \
    [[unroll]] for (uint j = 0u; j < ACROSS; ++j)                                 \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                             \
            Sums high = Sums(0);                                                  \
            Sums low = Sums(0);                                                   \
            for (uint k0 = 0u; k0 < 4u * WORDS; k0 += DEPTH) {         \
                Left a;                                                           \
                Right b;                                                          \
                uint of_left = ((left_row) + i * SIDE_M) * WORDS + k0 / 4u;       \
                uint of_right = ((right_row) + j * SIDE_N) * WORDS + k0 / 4u;     \
                LOAD(a, left, of_left, WORDS, gl_CooperativeMatrixLayoutRowMajor); \
                LOAD(b, right, of_right, WORDS, gl_CooperativeMatrixLayoutColumnMajor); \
                high = coopMatMulAdd(a, b, high);                                 \
                if (left_plane != 0u)                                             \
                    LOAD(a, left, left_plane + of_left, WORDS, gl_CooperativeMatrixLayoutRowMajor); \
                if (right_plane != 0u)                                            \
                    LOAD(b, right, right_plane + of_right, WORDS, gl_CooperativeMatrixLayoutColumnMajor); \
                low = coopMatMulAdd(a, b, low);                                   \
            }                                                                     \
            [[unroll]] for (uint e = 0u; e < low.length(); ++e) low[e] += 256 * high[e]; \
            coopMatStore(low, sum_tile,                                           \
                         i * SIDE_M * SUM_UNITS * PARTS + AT(4u * j * SIDE_N), \
                         SUM_UNITS * PARTS, gl_CooperativeMatrixLayoutRowMajor);  \
        }                                                                         \
    subgroupBarrier();

// The sums of the rows' digits, whose lower ones lie `lower` rows further (0 if there is one digit), with columns
// 32 group .. of 32 rows of `right` from right_row on: into shared memory as above.
#define MULTIPLY_DIGITS(lower, right, right_row, right_plane, group)              \
    [[unroll]] for (uint j = 0u; j < ACROSS; ++j)                                 \
        [[unroll]] for (uint i = 0u; i < DOWN; ++i) {                             \
            Sums high = Sums(0);                                                  \
            Sums low = Sums(0);                                                   \
            [[unroll]] for (uint k0 = 0u; k0 < COLS; k0 += DEPTH) {               \
                Left a;                                                           \
                Right b;                                                          \
                uint of_left = i * SIDE_M * DIGIT_UNITS * PARTS + AT(k0); \
                uint of_right = ((right_row) + k0) * WORDS + (COLS * (group) + j * SIDE_N) / 4u; \
                coopMatLoad(a, digit_tile, of_left, DIGIT_UNITS * PARTS, gl_CooperativeMatrixLayoutRowMajor); \
                LOAD(b, right, of_right, WORDS, gl_CooperativeMatrixLayoutRowMajor); \
                high = coopMatMulAdd(a, b, high);                                 \
                if (lower != 0u)                                                  \
                    coopMatLoad(a, digit_tile, (lower) * DIGIT_UNITS * PARTS + of_left, DIGIT_UNITS * PARTS, \
                                gl_CooperativeMatrixLayoutRowMajor);              \
                if (right_plane != 0u)                                            \
                    LOAD(b, right, right_plane + of_right, WORDS, gl_CooperativeMatrixLayoutRowMajor); \
                low = coopMatMulAdd(a, b, low);                                   \
            }                                                                     \
            [[unroll]] for (uint e = 0u; e < low.length(); ++e) low[e] += 256 * high[e]; \
            coopMatStore(low, sum_tile,                                           \
                         i * SIDE_M * SUM_UNITS * PARTS + AT(4u * j * SIDE_N), \
                         SUM_UNITS * PARTS, gl_CooperativeMatrixLayoutRowMajor);  \
        }                                                                         \
    subgroupBarrier();

// For each c, four sums of the thread's row: BODY has `four`, of columns 4 c .. 4 c + 3.
#define EACH_FOUR_SUMS(BODY)                                                      \
    EACH(c, COLS / 4u,                                                            \
        ivec4 four = sums_at(gl_LocalInvocationIndex * SUM_UNITS + c);                          \
        BODY                                                                      \
    )                                                                             \
    subgroupBarrier();

// Puts a thread's weights, zero where it sees nothing, into shared memory as integers, upper digits and lower ones, and
// returns the factors of their exponent.
vec2 quantise(float weights[COLS], bool wide) {
    uint top = 0u;
    EACH(j, COLS, top = max(top, hlx_magnitude(weights[j]));)
    int exponent = hlx_row_exponent(top, wide);
    vec2 scale = hlx_scale(exponent);
    EACH(unit, COLS / 16u,
        uvec4 upper;
        uvec4 lower;
        EACH(w, 4u,
            uint j = 16u * unit + 4u * w;
            vec4 four = vec4(weights[j], weights[j + 1u], weights[j + 2u], weights[j + 3u]);
            ivec4 integers = hlx_quantised4(four, exponent, scale);
            if (wide) upper[w] = hlx_upper_digits(integers);
            lower[w] = hlx_lower_digits(integers);
        )
        uint at = gl_LocalInvocationIndex * DIGIT_UNITS + unit;
        if (wide) {
            put_digits(at, upper);
            put_digits(ROWS * DIGIT_UNITS + at, lower);
        } else {
            put_digits(at, lower);
        }
    )
    subgroupBarrier();
    return hlx_factors(exponent);
}
