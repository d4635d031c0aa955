// C[m,n] = chain over k = 0, 1, .. of fma(A[m,k], B[k,n], acc), then -0 becomes +0.
//
// A: [M,K] or, TRANS_A, stored [K,M]. B: [K,N] or, TRANS_B, stored [N,K]. C: [M,N]. The chain
// starts at 0, at bias[n], or at what C holds. A batch matrix is a z of the grid.
//
// The including file defines the tile: TILE_M x TILE_N elements of C a workgroup, THREAD_M x
// THREAD_N a thread (multiples of 4), K_STEP (16 or 32) terms of k a step. A step's operands wait
// in shared memory as [k][m] and [k][n], in units of four floats, twice: one half is filled while
// the other is read. Elements past an edge are 0, so that a step past K is fma(0, 0, acc), which
// changes nothing but the sign of a zero.
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"

#define THREADS_M (TILE_M / THREAD_M)
#define THREADS_N (TILE_N / THREAD_N)
#define THREADS (THREADS_M * THREADS_N)
#define GROUPS_M (THREAD_M / 4)
#define GROUPS_N (THREAD_N / 4)
// Blocks of 4 k by 4 elements that a step loads, A's first; each thread moves LOADS of them.
#define BLOCKS_A (TILE_M * K_STEP / 16)
#define BLOCKS_B (TILE_N * K_STEP / 16)
#define LOADS ((BLOCKS_A + BLOCKS_B) / THREADS)
// A shared row is permuted by an exclusive or that depends on k / 4: eight neighbouring threads
// then meet eight different bank groups both when they write transposed and when they read.
#define SWIZZLE(k4) (K_STEP == 32 ? ((k4) & 7u) : (((k4) & 3u) << 1))

layout(local_size_x = THREADS) in;

layout(constant_id = 0) const bool TRANS_A = false;
layout(constant_id = 1) const bool TRANS_B = false;
// Rows of A, B or C start at a multiple of four floats: whole vectors are loaded and stored.
layout(constant_id = 2) const bool VECTOR_A = false;
layout(constant_id = 3) const bool VECTOR_B = false;
layout(constant_id = 4) const bool VECTOR_C = false;
// Where the chain starts: 0 at zero, 1 at the bias, 2 at what C holds.
layout(constant_id = 5) const uint START = 0;

// M, N and K are multiples of the tile and of K_STEP, and whole vectors are loaded: nothing lies
// past an edge. Without the tests for it an H200 is 1.4 times as fast (docs/benchmarks.md).
layout(constant_id = 6) const bool EXACT = false;

layout(push_constant) uniform Push {
    uint m;
    uint n;
    uint k;
    uint stride_a;
    uint stride_b;
    uint stride_c;
    uint batch_first;
} push;

layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 0) readonly buffer AVectors { vec4 a_vectors[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 1) readonly buffer BVectors { vec4 b_vectors[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) buffer C { float c[]; };
layout(set = 0, binding = 3) buffer CVectors { vec4 c_vectors[]; };

shared vec4 a_tile[2][K_STEP * TILE_M / 4];
shared vec4 b_tile[2][K_STEP * TILE_N / 4];

// Four neighbours along an operand's contiguous direction, from `at`; `left` of them exist.
vec4 load_a(uint at, uint left) {
    if (VECTOR_A) {
        return left > 0u ? a_vectors[at >> 2] : vec4(0.0);
    }
    vec4 v = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (i < left) v[i] = a[at + i];
    }
    return v;
}

vec4 load_b(uint at, uint left) {
    if (VECTOR_B) {
        return left > 0u ? b_vectors[at >> 2] : vec4(0.0);
    }
    vec4 v = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (i < left) v[i] = b[at + i];
    }
    return v;
}

// How many of the elements from `first` lie below `end`.
uint left_of(uint first, uint end) {
    return first < end ? end - first : 0u;
}

// Where block `block` of a step lies: x in units of four elements of M or N, y of k. Neighbouring
// threads follow the direction in which memory is contiguous.
uvec2 block_place(uint block, bool k_contiguous, uint units) {
    return k_contiguous ? uvec2(block / (K_STEP / 4), block % (K_STEP / 4))
                        : uvec2(block % units, block / units);
}

// Loads a block as four vectors along the contiguous direction.
void fetch(uint block, uint k_first, uvec2 corner, uvec2 base, out vec4 v[4]) {
    bool is_a = block < BLOCKS_A;
    bool k_contiguous = is_a ? !TRANS_A : TRANS_B;
    uvec2 place = is_a ? block_place(block, !TRANS_A, TILE_M / 4)
                       : block_place(block - BLOCKS_A, TRANS_B, TILE_N / 4);
    uint element = (is_a ? corner.x : corner.y) + 4u * place.x;
    uint k = k_first + 4u * place.y;
    uint elements = is_a ? push.m : push.n;
    uint row = k_contiguous ? element : k;
    uint rows = k_contiguous ? elements : push.k;
    uint column = k_contiguous ? k : element;
    uint columns = k_contiguous ? push.k : elements;
    uint left = left_of(column, columns);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint here = EXACT ? 4u : row + i < rows ? left : 0u;
        uint at = (row + i) * columns + column;
        if (is_a) {
            v[i] = load_a(base.x + at, here);
        } else {
            v[i] = load_b(base.y + at, here);
        }
    }
}

// Stores a block as vectors along M or N, one a k.
void keep(uint block, uint half_idx, vec4 v[4]) {
    bool is_a = block < BLOCKS_A;
    bool k_contiguous = is_a ? !TRANS_A : TRANS_B;
    uvec2 place = is_a ? block_place(block, !TRANS_A, TILE_M / 4)
                       : block_place(block - BLOCKS_A, TRANS_B, TILE_N / 4);
    uint unit = place.x ^ SWIZZLE(place.y);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        vec4 w = k_contiguous ? vec4(v[0][i], v[1][i], v[2][i], v[3][i]) : v[i];
        if (is_a) {
            a_tile[half_idx][(4u * place.y + i) * (TILE_M / 4) + unit] = w;
        } else {
            b_tile[half_idx][(4u * place.y + i) * (TILE_N / 4) + unit] = w;
        }
    }
}

// The terms of one k of a step: each element's chain goes on by one fma.
#define TERMS(k)                                                                                \
    {                                                                                           \
        uint permutation = SWIZZLE((k) >> 2);                                                   \
        vec4 x[GROUPS_M];                                                                       \
        vec4 y[GROUPS_N];                                                                       \
        [[unroll]] for (uint g = 0u; g < GROUPS_M; ++g) {                                       \
            uint unit = (thread_m + g * THREADS_M) ^ permutation;                               \
            x[g] = a_tile[half_idx][(k) * (TILE_M / 4) + unit];                                 \
        }                                                                                       \
        [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g) {                                       \
            uint unit = (thread_n + g * THREADS_N) ^ permutation;                               \
            y[g] = b_tile[half_idx][(k) * (TILE_N / 4) + unit];                                 \
        }                                                                                       \
        [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {                                       \
            [[unroll]] for (uint j = 0u; j < THREAD_N; ++j) {                                   \
                acc[i][j] = hlx_fma(x[i / 4u][i % 4u], y[j / 4u][j % 4u], acc[i][j]);           \
            }                                                                                   \
        }                                                                                       \
    }

void main() {
    uint thread = gl_LocalInvocationIndex;
    // A subgroup of 32 covers 8 units of N and 4 of M: its reads of a row are one wavefront.
    uint thread_n = (thread & 7u) + 8u * ((thread >> 5) % (THREADS_N / 8));
    uint thread_m = ((thread >> 3) & 3u) + 4u * ((thread >> 5) / (THREADS_N / 8));
    uvec2 corner = uvec2(gl_WorkGroupID.y * TILE_M, gl_WorkGroupID.x * TILE_N);
    uint batch_idx = push.batch_first + gl_WorkGroupID.z;
    uvec2 base = batch_idx * uvec2(push.stride_a, push.stride_b);
    uint base_c = batch_idx * push.stride_c;

    precise float acc[GROUPS_M * 4][GROUPS_N * 4];
    [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
        [[unroll]] for (uint j = 0u; j < THREAD_N; ++j) {
            uint m = corner.x + 4u * (thread_m + (i / 4u) * THREADS_M) + i % 4u;
            uint n = corner.y + 4u * (thread_n + (j / 4u) * THREADS_N) + j % 4u;
            acc[i][j] = 0.0;
            if (START == 1u && n < push.n) acc[i][j] = bias[n];
            if (START == 2u && m < push.m && n < push.n) acc[i][j] = c[base_c + m * push.n + n];
        }
    }

    vec4 staged[LOADS][4];
    uint steps = (push.k + K_STEP - 1u) / K_STEP;
    if (steps > 0u) {
        [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
            fetch(thread + l * THREADS, 0u, corner, base, staged[l]);
            keep(thread + l * THREADS, 0u, staged[l]);
        }
    }
    barrier();
    for (uint step = 0u; step < steps; ++step) {
        uint half_idx = step & 1u;
        bool more = step + 1u < steps;
        if (more) {
            [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
                fetch(thread + l * THREADS, (step + 1u) * K_STEP, corner, base, staged[l]);
            }
        }
        // Unrolled where an fma is one instruction; emulated ones would fill the program.
        if (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u) {
            [[unroll]] for (uint k = 0u; k < K_STEP; ++k) TERMS(k)
        } else {
            for (uint k = 0u; k < K_STEP; ++k) TERMS(k)
        }
        if (more) {
            [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
                keep(thread + l * THREADS, half_idx ^ 1u, staged[l]);
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
        uint m = corner.x + 4u * (thread_m + (i / 4u) * THREADS_M) + i % 4u;
        [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g) {
            uint n = corner.y + 4u * (thread_n + g * THREADS_N);
            vec4 v;
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = hlx_pos0(acc[i][4u * g + j]);
            uint at = base_c + m * push.n + n;
            if (m >= push.m) continue;
            if (VECTOR_C) {
                if (n < push.n) c_vectors[at >> 2] = v;
            } else {
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    if (n + j < push.n) c[at + j] = v[j];
                }
            }
        }
    }
}
