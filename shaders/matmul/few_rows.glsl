// C[m,n] = chain over k = 0, 1, .. of fma(A[m,k], W[n,k], acc), then -0 becomes +0, for few rows m.
//
// A: [M,K] of f32; W: [N,K] of f32, f16 or bf16, widened exactly; C: [M,N]. The chain starts at 0 or at
// bias[n]; a second operand of C's shape may be added to its result.
//
// With few rows the kernel is bound by the memory that W lies in and by the latency of a chain, which no
// split over K may shorten. So half of a workgroup's threads load, and a thread of the other half has one
// chain: the loads of the next DEPTH tiles of W are under way while the terms of this one are added, each by
// one of DEPTH groups of loaders. A tile is 16 bytes x UNITS of each of COLUMNS rows of W; it passes through
// shared memory, whose two halves are filled in turns, because lanes that load side by side along k add up side
// by side along n.
//
// The program is short on purpose: a launch of some microseconds begins with reading it. With the loop over
// tiles unrolled by DEPTH it was two to three times as long.
//
// The including file defines COLUMNS. It may define what A goes through when it is loaded, in place of a launch
// before the product:
//   NORMED: (A[m,k] rstd[m]) gain[k], rstd = 1 / sqrt((sum_k A[m,k]^2) / K + eps), the sum in the order of
//     include/reduce.glsl, computed by every workgroup while its first tiles of W are under way;
//   GATED: silu(A[m,k]) up[m,k].
#include "../include/arith.glsl"
#include "../include/element.glsl"
#ifdef NORMED
#include "../include/math.glsl"
#endif
#ifdef GATED
#include "../include/activation.glsl"
#endif

#define LOADERS 128
#define CHAINS 128
// Units of 16 bytes of a tile's column. In shared memory one of padding follows, so that neighbouring columns lie
// in other banks.
#define UNITS 32u
#define COLUMN_UNITS (UNITS + 1u)
// Groups of loaders, the loaders of one, and the units of a tile that each of them has: COLUMNS.
#define DEPTH 4u
#define GROUP (LOADERS / DEPTH)
// The most vectors of A that a loader has: 16 rows of 256 terms.
#define MOST_A_LOADS 8

layout(local_size_x = LOADERS + CHAINS) in;

// The type of W's elements.
layout(constant_id = 0) const uint W_TYPE = HLX_F32;
// Where a chain starts: 0 at zero, 1 at the bias.
layout(constant_id = 1) const uint START = 0;
// The second operand is added.
layout(constant_id = 2) const bool ADDS = false;
// Rows of C that a workgroup has, at most CHAINS / COLUMNS.
layout(constant_id = 3) const uint ROWS = 1;

layout(push_constant) uniform Push {
    uint m, n;
    uint k;  // a multiple of the elements of a unit
#ifdef NORMED
    float eps;
#endif
} push;

layout(set = 0, binding = 0) readonly buffer A { vec4 a[]; };
layout(set = 0, binding = 1) readonly restrict buffer W { uvec4 w[]; };
layout(set = 0, binding = 2) readonly restrict buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly restrict buffer C { float c[]; };
layout(set = 0, binding = 4) readonly restrict buffer Extra { float extra[]; };
#ifdef NORMED
layout(set = 0, binding = 0) readonly buffer AScalars { float a_scalars[]; };
layout(set = 0, binding = 5) readonly restrict buffer Gain { vec4 gain[]; };
#endif
#ifdef GATED
layout(set = 0, binding = 5) readonly restrict buffer Up { vec4 up[]; };
#endif

// Vectors of A that belong to a unit of W, and to a tile.
const uint A_UNIT = W_TYPE == HLX_F32 ? 1u : 2u;
const uint A_TILE = A_UNIT * UNITS;
const uint A_ROW = A_TILE + 1u;
const uint A_LOADS = (ROWS * A_TILE + LOADERS - 1u) / LOADERS;

shared uvec4 w_tile[2u * COLUMNS * COLUMN_UNITS];
shared vec4 a_tile[2u * ROWS * A_ROW];

// The lower or the upper 16 bits of a word as the float of the same value. A subnormal bf16 stays one: the
// multiply-add takes it for zero.
float widened(uint word, uint half_idx) {
    if (W_TYPE == HLX_BF16)
        return uintBitsToFloat(half_idx == 0u ? word << 16 : word & 0xffff0000u);
    return uintBitsToFloat(hlx_widen(W_TYPE, word, half_idx));
}

// The terms of a unit, whose elements lie behind each other along k.
float add_unit(float acc, uvec4 unit, vec4 x0, vec4 x1) {
    precise float sum = acc;
    if (W_TYPE == HLX_F32) {
        [[unroll]] for (uint i = 0u; i < 4u; ++i)
            sum = hlx_fma(x0[i], uintBitsToFloat(unit[i]), sum);
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint at = 2u * (i & 1u);
            sum = hlx_fma(i < 2u ? x0[at] : x1[at], widened(unit[i], 0u), sum);
            sum = hlx_fma(i < 2u ? x0[at + 1u] : x1[at + 1u], widened(unit[i], 1u), sum);
        }
    }
    return sum;
}

// Two units of a column, and what belongs to them of a row: the second vectors are of 16-bit weights alone.
#define LOAD_UNITS(unit, x0, x1, first)                                                  \
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {                                           \
        unit[i] = w_tile[w_first + (first) + i];                                          \
        x0[i] = a_tile[a_first + A_UNIT * ((first) + i)];                                 \
        x1[i] = a_tile[a_first + A_UNIT * ((first) + i) + A_UNIT - 1u];                   \
    }

// A chain goes on over `units` units of a half of shared memory. Two units are loaded while the terms of
// two others are added, so that no term waits for shared memory.
float add_tile(float acc, uint half_idx, uint column, uint row, uint units) {
    precise float sum = acc;
    uint w_first = (half_idx * COLUMNS + column) * COLUMN_UNITS;
    uint a_first = (half_idx * ROWS + row) * A_ROW;
    if (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u && units == UNITS) {
        uvec4 unit[2];
        vec4 x0[2];
        vec4 x1[2];
        LOAD_UNITS(unit, x0, x1, 0u)
        [[dont_unroll]] for (uint u = 0u; u < UNITS; u += 4u) {
            uvec4 next_unit[2];
            vec4 next_x0[2];
            vec4 next_x1[2];
            LOAD_UNITS(next_unit, next_x0, next_x1, u + 2u)
            [[unroll]] for (uint i = 0u; i < 2u; ++i) sum = add_unit(sum, unit[i], x0[i], x1[i]);
            // The last turn loads the first units again instead of branching.
            LOAD_UNITS(unit, x0, x1, (u + 4u) % UNITS)
            [[unroll]] for (uint i = 0u; i < 2u; ++i)
                sum = add_unit(sum, next_unit[i], next_x0[i], next_x1[i]);
        }
    } else {
        for (uint u = 0u; u < units; ++u) {
            uint a_at = a_first + A_UNIT * u;
            sum = add_unit(sum, w_tile[w_first + u], a_tile[a_at], a_tile[a_at + A_UNIT - 1u]);
        }
    }
    return sum;
}

// The units of W of a tile that a loader has. Columns and units past an edge are read from it, and not used.
#define FETCH_W(tile)                                                                    \
    [[unroll]] for (uint l = 0u; l < COLUMNS; ++l) {                                      \
        uint at = loader % GROUP + l * GROUP;                                             \
        uint column = min(first_n + at / UNITS, push.n - 1u);                             \
        uint unit = min((tile) * UNITS + at % UNITS, k_units - 1u);                       \
        w_staged[l] = w[column * k_units + unit];                                         \
    }
// They go into a half of shared memory.
#define KEEP_W(half_idx)                                                                 \
    [[unroll]] for (uint l = 0u; l < COLUMNS; ++l) {                                      \
        uint at = loader % GROUP + l * GROUP;                                             \
        w_tile[((half_idx) * COLUMNS + at / UNITS) * COLUMN_UNITS + at % UNITS] = w_staged[l]; \
    }

// What a vector of A is multiplied by.
#ifdef NORMED
#define FETCH_FACTOR(l, row, vector) factors[l] = gain[vector];
#elif defined(GATED)
#define FETCH_FACTOR(l, row, vector) factors[l] = up[(row) * A_UNIT * k_units + (vector)];
#else
#define FETCH_FACTOR(l, row, vector)
#endif

#define FETCH_A(tile)                                                                    \
    [[unroll]] for (uint l = 0u; l < A_LOADS; ++l) {                                      \
        uint at = loader + l * LOADERS;                                                   \
        uint vector = min((tile) * A_TILE + at % A_TILE, A_UNIT * k_units - 1u);          \
        uint a_row = min(first_m + min(at / A_TILE, ROWS - 1u), push.m - 1u);             \
        a_staged[l] = a[a_row * A_UNIT * k_units + vector];                               \
        FETCH_FACTOR(l, a_row, vector)                                                    \
    }

#ifdef NORMED
#define NORM_TERMS push.k
#define NORM_EPS push.eps
#include "../norm/few_rows.glsl"
#endif

// An element of A as the chains read it.
float prepared(float x, float factor, uint row) {
#ifdef NORMED
    return hlx_mul(hlx_mul(x, rstds[row]), factor);
#elif defined(GATED)
    return hlx_mul(silu_forward(x), factor);
#else
    return x;
#endif
}

vec4 prepared4(vec4 x, vec4 factor, uint row) {
    precise vec4 y = x;
    // Emulated functions would fill the program four times.
    if (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u) {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) y[i] = prepared(x[i], factor[i], row);
    } else {
        for (uint i = 0u; i < 4u; ++i) y[i] = prepared(x[i], factor[i], row);
    }
    return y;
}

// What has been loaded of a tile of A, into its half of shared memory.
#define KEEP_A(half_idx)                                                                 \
    [[unroll]] for (uint l = 0u; l < A_LOADS; ++l) {                                      \
        uint at = loader + l * LOADERS;                                                   \
        if (at < ROWS * A_TILE)                                                           \
            a_tile[((half_idx) * ROWS + at / A_TILE) * A_ROW + at % A_TILE] =             \
                prepared4(a_staged[l], factors[l], at / A_TILE);                          \
    }

void main() {
    // Workgroups that read the same rows of W follow each other.
    uint group = hlx_group();
    uint row_tiles = (push.m + ROWS - 1u) / ROWS;
    uint first_m = group % row_tiles * ROWS;
    uint first_n = group / row_tiles * COLUMNS;
    if (first_n >= push.n) return;
    uint k_units = push.k / (4u * A_UNIT);
    uint tiles = (k_units + UNITS - 1u) / UNITS;

    uint loader = gl_LocalInvocationIndex;
    bool loads = loader < LOADERS;
    // Which 32 threads have the first chains differs from workgroup to workgroup: a processor's warps share
    // its schedulers by their place, and few chains would all be on the same one.
    uint turn = (group * 0x9e3779b1u) >> 30;
    uint chain = (gl_LocalInvocationIndex + 32u * turn) % CHAINS;
    uint column = chain % COLUMNS;
    uint row = chain / COLUMNS;
    uint n = first_n + column;
    bool adds = !loads && row < ROWS && first_m + row < push.m && n < push.n;

    precise float sum = 0.0;
    uint result_at = (first_m + row) * push.n + n;
    if (START == 1u && adds) sum = bias[n];
    float added = 0.0;
    if (ADDS && adds) added = extra[result_at];
    uvec4 w_staged[COLUMNS];
    vec4 a_staged[MOST_A_LOADS];
    vec4 factors[MOST_A_LOADS];
    // The next tile of W that this loader's group has.
    uint own_tile = loader / GROUP;
    if (loads) {
        if (own_tile < tiles) { FETCH_W(own_tile) }
        if (tiles > 0u) { FETCH_A(0u) }
    }
#ifdef NORMED
    norm_rows(first_m);
#endif
    // Loaders are at most one tile ahead: they fill the half that the chains have left at the last barrier.
    [[dont_unroll]] for (uint tile = 0u; tile < tiles; ++tile) {
        if (loads) {
            KEEP_A(tile & 1u)
            if (tile + 1u < tiles) { FETCH_A(tile + 1u) }
            if (tile == own_tile) {
                KEEP_W(tile & 1u)
                own_tile += DEPTH;
                if (own_tile < tiles) { FETCH_W(own_tile) }
            }
        }
        barrier();
        if (adds) sum = add_tile(sum, tile & 1u, column, row, min(UNITS, k_units - tile * UNITS));
    }
    if (!adds) return;
    precise float result = hlx_pos0(sum);
    if (ADDS) result = hlx_add(result, added);
    c[result_at] = result;
}
