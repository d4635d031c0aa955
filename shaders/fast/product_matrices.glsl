// The product of operands of 16 bits (round.comp) by cooperative matrices with sums of f32, of any shape that a device lists:
//   C[i, m, n] = sum over k of a[i % groups, m, k] b[i, n, k], -0 to +0; then bias[n] is added, -0 to +0; then ADDS adds extra,
// or what C held. A sum is one chain of matrices along k in every tile, so that neither the tile nor the number of rows changes it.
//
// A workgroup's tile of results is cut among its subgroups. Some terms pass through shared memory at a time; the next ones are on
// their way into registers meanwhile, and with two BUFFERS from there into the other one.
//
// a: matrices of lines of units of eight halves: M lines of K terms, or A_COLUMNS K lines of M; b likewise with N.
//
// OF_GROUPS: which rows or terms a product has is known on the device alone, by bounds:
//   BOUNDED 1: C has M rows, and a M lines; those from bounds[g] to bounds[g + 1] are multiplied with b of group g, counted from
//              first_group. The tiles of a group follow those of the one before; the grid has as many as there can be.
//   BOUNDED 2: a and b have K lines; product i is of those from bounds[first_group + i] to the next bound.
#include "../include/arith.glsl"
#include "../include/half_matrices.glsl"

layout(constant_id = 0) const bool HAS_BIAS = false;
// What is added at the end: 0 nothing, 1 extra, 2 C itself.
layout(constant_id = 1) const uint ADDS = 0;
// Rows of C begin at multiples of four.
layout(constant_id = 2) const bool VECTORS = false;
layout(constant_id = 3) const bool A_COLUMNS = false;
layout(constant_id = 8) const bool B_COLUMNS = false;
// K is a multiple of STEP.
layout(constant_id = 9) const bool WHOLE_STEPS = false;

layout(constant_id = 7) const uint THREADS = 256;
layout(local_size_x_id = 7) in;

// Results of a workgroup, and of each of its subgroups; terms of a step.
layout(constant_id = 10) const uint ROWS = 128;
layout(constant_id = 11) const uint COLUMNS = 128;
layout(constant_id = 12) const uint OWN_ROWS = 64;
layout(constant_id = 13) const uint OWN_COLUMNS = 32;
layout(constant_id = 14) const uint STEP = 32;
layout(constant_id = 15) const uint BUFFERS = 2;

layout(push_constant) uniform Push {
    uint batch, m, n, k;
    uint groups;             // different matrices a; BOUNDED 1: groups
    uint a_line, b_line;     // units of a line
    uint a_matrix, b_matrix; // units of a matrix
    uint c_first, c_line;    // the first result's place in C, and from row to row
    uint first_group;
} push;

layout(set = 0, binding = 0) readonly restrict buffer A { uvec4 a[]; };
layout(set = 0, binding = 1) readonly restrict buffer B { uvec4 b[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) readonly buffer Extra { float extra[]; };
layout(set = 0, binding = 4) buffer C { float c[]; };
#ifdef OF_GROUPS
layout(constant_id = 16) const uint BOUNDED = 1u;
layout(set = 0, binding = 5) readonly buffer Bounds { uint bounds[]; };
#else
const uint BOUNDED = 0u;
#endif

const uint SUBGROUP = THREADS / (ROWS / OWN_ROWS * (COLUMNS / OWN_COLUMNS));
const uint DOWN = OWN_ROWS / SIDE_M;
const uint ACROSS = OWN_COLUMNS / SIDE_N;

// Units of a line of an operand in shared memory, and the units from line to line: an odd number, so that eight lines lie in
// different banks.
const uint A_UNITS = (A_COLUMNS ? ROWS : STEP) / 8u;
const uint B_UNITS = (B_COLUMNS ? COLUMNS : STEP) / 8u;
const uint A_STRIDE = A_UNITS + 1u;
const uint B_STRIDE = B_UNITS + 1u;
const uint A_LINES = A_COLUMNS ? STEP : ROWS;
const uint B_LINES = B_COLUMNS ? STEP : COLUMNS;
const uint B_FIRST = A_LINES * A_STRIDE;
const uint PART = B_FIRST + B_LINES * B_STRIDE;
// Units that a thread loads.
const uint A_ALL = A_LINES * A_UNITS;
const uint B_ALL = B_LINES * B_UNITS;
const uint A_LOADS = (A_ALL + THREADS - 1u) / THREADS;
const uint B_LOADS = (B_ALL + THREADS - 1u) / THREADS;
// Results on their way out at an edge, in units of four: the rows of a matrix of each subgroup.
const uint RESULT_STRIDE = OWN_COLUMNS / 4u + 1u;
const uint OWN_RESULTS = SIDE_M * RESULT_STRIDE;
const uint RESULTS = THREADS / SUBGROUP * OWN_RESULTS;

shared uvec4 staging[BUFFERS * PART > RESULTS ? BUFFERS * PART : RESULTS];

// Of a load of an operand: its line and its unit in the tile. Lines of four units are paired so that eight threads that store at a
// time meet different banks.
uvec2 place_of(uint load, uint units) {
    if (units == 4u) return uvec2(load / 32u * 8u + load / 8u % 4u + load / 4u % 2u * 4u, load % 4u);
    return uvec2(load / units, load % units);
}

// Workgroups that follow each other share rows of a, or columns of b, in blocks of eight rows of tiles.
uvec2 tile_of(uint group, uint down, uint across) {
    const uint TALL = 8u;
    uint first = group / (TALL * across) * TALL;
    uint tall = min(TALL, down - first);
    uint within = group % (TALL * across);
    return uvec2(first + within % tall, within / tall);
}

float finished(float sum, float of_bias, float added) {
    precise float v = hlx_pos0(hlx_flush(sum));
    if (HAS_BIAS) v = hlx_pos0(hlx_add(v, of_bias));
    if (ADDS != 0u) v = hlx_add(v, added);
    return v;
}

// Whether units from this one on of a line of terms, or lines of terms, have terms.
#define HAS_TERM(term) (WHOLE_STEPS || (term) < terms)

// Loads a thread's units of the step whose first term this is; past the last term they are zeros, and past the last vector they
// are others, whose results are not stored.
#define FETCH(first_term)                                                                                    \
    [[unroll]] for (uint l = 0u; l < A_LOADS; ++l) {                                                         \
        a_staged[l] = uvec4(0u);                                                                             \
        if ((A_ALL % THREADS == 0u || gl_LocalInvocationIndex + l * THREADS < A_ALL) &&                      \
            HAS_TERM((first_term) + a_term[l]))                                                              \
            a_staged[l] = a[a_at[l] + (A_COLUMNS ? (first_term) * push.a_line : (first_term) / 8u)];         \
    }                                                                                                        \
    [[unroll]] for (uint l = 0u; l < B_LOADS; ++l) {                                                         \
        b_staged[l] = uvec4(0u);                                                                             \
        if ((B_ALL % THREADS == 0u || gl_LocalInvocationIndex + l * THREADS < B_ALL) &&                      \
            HAS_TERM((first_term) + b_term[l]))                                                              \
            b_staged[l] = b[b_at[l] + (B_COLUMNS ? (first_term) * push.b_line : (first_term) / 8u)];         \
    }

#define PUT(part)                                                                                            \
    [[unroll]] for (uint l = 0u; l < A_LOADS; ++l)                                                           \
        if (A_ALL % THREADS == 0u || gl_LocalInvocationIndex + l * THREADS < A_ALL)                          \
            staging[(part) + a_shared[l]] = a_staged[l];                                                     \
    [[unroll]] for (uint l = 0u; l < B_LOADS; ++l)                                                           \
        if (B_ALL % THREADS == 0u || gl_LocalInvocationIndex + l * THREADS < B_ALL)                          \
            staging[(part) + b_shared[l]] = b_staged[l];

void main() {
    uint across = (push.n + COLUMNS - 1u) / COLUMNS;
    uint down = (push.m + ROWS - 1u) / ROWS;
    uint product;
    uint first_m;
    uint first_n;
    // Where the rows end, the first term, and how many there are.
    uint end_m = push.m;
    uint first_k = 0u;
    uint terms = push.k;
    if (BOUNDED == 1u) {
#ifdef OF_GROUPS
        first_n = hlx_group() % across * COLUMNS;
        uint tile = hlx_group() / across;
        for (product = 0u; product < push.groups; ++product) {
            first_m = bounds[push.first_group + product];
            end_m = min(bounds[push.first_group + product + 1u], push.m);
            uint tiles = first_m < end_m ? (end_m - first_m + ROWS - 1u) / ROWS : 0u;
            if (tile < tiles) break;
            tile -= tiles;
        }
        if (product >= push.groups) return;
        first_m += tile * ROWS;
#endif
    } else {
        product = hlx_group() / (across * down);
        if (product >= push.batch) return;
        uvec2 own = tile_of(hlx_group() % (across * down), down, across);
        first_m = own.x * ROWS;
        first_n = own.y * COLUMNS;
    }
#ifdef OF_GROUPS
    if (BOUNDED == 2u) {
        uint end = min(bounds[push.first_group + product + 1u], push.k);
        first_k = min(bounds[push.first_group + product], end);
        terms = end - first_k;
    }
#endif
    uint own_m = gl_SubgroupID / (COLUMNS / OWN_COLUMNS) * OWN_ROWS;
    uint own_n = gl_SubgroupID % (COLUMNS / OWN_COLUMNS) * OWN_COLUMNS;
    uint a_first = BOUNDED == 0u ? product % push.groups * push.a_matrix : first_k * push.a_line;
    uint b_first = BOUNDED == 2u ? first_k * push.b_line : product * push.b_matrix;
    uint c_first = push.c_first + (BOUNDED == 1u ? 0u : product * push.m * push.c_line);

    // Of each load, where its unit of the first step is, its first term, and where it goes.
    uint a_at[A_LOADS];
    uint a_term[A_LOADS];
    uint a_shared[A_LOADS];
    uint b_at[B_LOADS];
    uint b_term[B_LOADS];
    uint b_shared[B_LOADS];
    [[unroll]] for (uint l = 0u; l < A_LOADS; ++l) {
        uvec2 place = place_of(gl_LocalInvocationIndex + l * THREADS, A_UNITS);
        uint line = A_COLUMNS ? place.x : min(first_m + place.x, end_m - 1u);
        uint unit = A_COLUMNS ? min(first_m / 8u + place.y, push.a_line - 1u) : place.y;
        a_at[l] = a_first + line * push.a_line + unit;
        a_term[l] = A_COLUMNS ? place.x : 8u * place.y;
        a_shared[l] = place.x * A_STRIDE + place.y;
    }
    [[unroll]] for (uint l = 0u; l < B_LOADS; ++l) {
        uvec2 place = place_of(gl_LocalInvocationIndex + l * THREADS, B_UNITS);
        uint line = B_COLUMNS ? place.x : min(first_n + place.x, push.n - 1u);
        uint unit = B_COLUMNS ? min(first_n / 8u + place.y, push.b_line - 1u) : place.y;
        b_at[l] = b_first + line * push.b_line + unit;
        b_term[l] = B_COLUMNS ? place.x : 8u * place.y;
        b_shared[l] = B_FIRST + place.x * B_STRIDE + place.y;
    }

    Sums sums[DOWN * ACROSS];
    [[unroll]] for (uint i = 0u; i < DOWN * ACROSS; ++i) sums[i] = Sums(0.0);
    uvec4 a_staged[A_LOADS];
    uvec4 b_staged[B_LOADS];
    FETCH(0u)
    PUT(0u)
    uint part = 0u;
    [[dont_unroll]] for (uint first = 0u; first < terms; first += STEP) {
        barrier();
        uint next = min(first + STEP, (terms - 1u) / STEP * STEP);
        // (The last step's is loaded once more: a branch would keep the loads from their place among the products.)
        FETCH(next)
        [[unroll]] for (uint k = 0u; k < STEP; k += DEPTH) {
            Right right[ACROSS];
            [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
                uint column = own_n + j * SIDE_N;
                if (B_COLUMNS)
                    coopMatLoad(right[j], staging, part + B_FIRST + k * B_STRIDE + column / 8u, B_STRIDE,
                                gl_CooperativeMatrixLayoutRowMajor);
                else
                    coopMatLoad(right[j], staging, part + B_FIRST + column * B_STRIDE + k / 8u, B_STRIDE,
                                gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
                Left left;
                uint row = own_m + i * SIDE_M;
                if (A_COLUMNS)
                    coopMatLoad(left, staging, part + k * A_STRIDE + row / 8u, A_STRIDE,
                                gl_CooperativeMatrixLayoutColumnMajor);
                else
                    coopMatLoad(left, staging, part + row * A_STRIDE + k / 8u, A_STRIDE,
                                gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0u; j < ACROSS; ++j)
                    sums[i * ACROSS + j] = coopMatMulAdd(left, right[j], sums[i * ACROSS + j]);
            }
        }
        if (BUFFERS == 1u) barrier();
        else part = PART - part;
        PUT(part)
    }
    barrier();

    // Matrices go to C as they are.
    bool is_whole = VECTORS && first_m + ROWS <= end_m && first_n + COLUMNS <= push.n;
    uint results = gl_SubgroupID * OWN_RESULTS;
    [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
            Sums v = sums[i * ACROSS + j];
            if (is_whole) {
                uint row = first_m + own_m + i * SIDE_M;
                uint column = first_n + own_n + j * SIDE_N;
                uint at = c_first + row * push.c_line + column;
                Sums of_bias = Sums(0.0);
                Sums other = Sums(0.0);
                // Loaded with a stride of zero, a matrix has the bias of its column in each place.
                if (HAS_BIAS) coopMatLoad(of_bias, bias, column, 0u, gl_CooperativeMatrixLayoutRowMajor);
                if (ADDS == 1u) coopMatLoad(other, extra, at, push.c_line, gl_CooperativeMatrixLayoutRowMajor);
                if (ADDS == 2u) coopMatLoad(other, c, at, push.c_line, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint e = 0u; e < v.length(); ++e) v[e] = finished(v[e], of_bias[e], other[e]);
                coopMatStore(v, c, at, push.c_line, gl_CooperativeMatrixLayoutRowMajor);
            }
            // (A `continue` above would keep this loop from being unrolled, and all sums in memory.)
            if (!is_whole)
                coopMatStore(v, staging, results + j * SIDE_N / 4u, RESULT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        }
        // At an edge results pass through shared memory to where their row and column are known.
        if (!is_whole) {
            subgroupBarrier();
            [[dont_unroll]] for (uint at = gl_SubgroupInvocationID; at < SIDE_M * OWN_COLUMNS; at += SUBGROUP) {
                uint row = first_m + own_m + i * SIDE_M + at / OWN_COLUMNS;
                uint column = first_n + own_n + at % OWN_COLUMNS;
                if (row < end_m && column < push.n) {
                    uint of = c_first + row * push.c_line + column;
                    float sum = uintBitsToFloat(
                        staging[results + at / OWN_COLUMNS * RESULT_STRIDE + at % OWN_COLUMNS / 4u][at % 4u]);
                    float other = ADDS == 1u ? extra[of] : ADDS == 2u ? c[of] : 0.0;
                    c[of] = finished(sum, HAS_BIAS ? bias[column] : 0.0, other);
                }
            }
            subgroupBarrier();
        }
    }
}
