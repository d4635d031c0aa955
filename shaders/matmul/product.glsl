// C[m,n] = chain over k = 0, 1, .. of fma(A[m,k], B[k,n], acc), then -0 becomes +0.
//
// A: [M,K] or, TRANS_A, stored [K,M]. B: [K,N] or, TRANS_B, stored [N,K]. C: [M,N]. The chain
// starts at 0, at bias[n], or at what C holds. A batch matrix is a z of the grid.
//
// The including file defines the tile: TILE_M x TILE_N elements of C a workgroup, THREAD_M x
// THREAD_N a thread (multiples of 4), WARP_M x WARP_N threads side by side in 32 neighbouring
// ones, K_STEP terms of k a step, LANES threads that read one row along k. A step's operands wait
// in shared memory as [k][m] and [k][n], in units of four floats, twice: one half is read while
// the other is filled, and the loop is written out for both. The last step's operands are loaded,
// and kept, once more rather than asking whether there is another step. Terms past K are
// fma(0, 0, acc), which changes nothing but the sign of a zero.
#include "../include/arith.glsl"

layout(constant_id = 0) const bool TRANS_A = false;
layout(constant_id = 1) const bool TRANS_B = false;
// Rows of A, B or C start at a multiple of four floats: whole vectors are loaded and stored.
layout(constant_id = 2) const bool VECTOR_A = false;
layout(constant_id = 3) const bool VECTOR_B = false;
layout(constant_id = 4) const bool VECTOR_C = false;
// Where the chain starts: 0 at zero, 1 at the bias, 2 at what C holds.
layout(constant_id = 5) const uint START = 0;
// VECTOR_A, VECTOR_B, and K is a multiple of K_STEP: loads need no tests. Rows and columns past
// an edge read the last ones again; what is made of them is not stored.
layout(constant_id = 6) const bool PLAIN = false;
// An even number of steps: the loop has no way out in its middle (5% on an H200).
layout(constant_id = 7) const bool EVEN = false;

layout(push_constant) uniform Push {
    uint m, n, k;
    uint stride_a, stride_b, stride_c;
    uint batch_first;
    float scalar;
} push;

HLX_WITH_VECTORS(0, readonly, float, A, a)
HLX_WITH_VECTORS(1, readonly, float, B, b)
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
HLX_WITH_VECTORS(3, , float, C, c)

#include "tile.glsl"

// Stores four elements of C from row m and column n, those that are there.
void store(uint base, uint m, uint n, vec4 v) {
    uint at = base + m * push.n + n;
    if (m >= push.m) return;
    HLX_STORE_FOUR(j, VECTOR_C, c, at, n, push.n, v)
}

#ifdef HAS_EPILOGUE
#include "epilogue.glsl"
#endif

// Loads the vectors of the step that begins at k_first.
#define FETCH(k_first)                                                                       \
    if (PLAIN) {                                                                                  \
        [[unroll]] for (uint l = 0u; l < LOADS_A; ++l) {                                          \
            a_staged[l] = a_vectors[a_next[l]];                                                   \
        }                                                                                         \
        [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) {                                          \
            b_staged[l] = b_vectors[b_next[l]];                                                   \
        }                                                                                         \
    } else {                                                                                      \
        [[unroll]] for (uint l = 0u; l < LOADS_A; ++l) {                                          \
            Place p = place_of(l, !TRANS_A, TILE_M);                                              \
            LOAD_TESTED(a_staged[l], a, a_vectors, VECTOR_A, p, base.x, corner.x, k_first,        \
                        !TRANS_A, push.m)                                                         \
        }                                                                                         \
        [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) {                                          \
            Place p = place_of(l, TRANS_B, TILE_N);                                               \
            LOAD_TESTED(b_staged[l], b, b_vectors, VECTOR_B, p, base.y, corner.y, k_first,        \
                        TRANS_B, push.n)                                                          \
        }                                                                                         \
    }

// Goes one step on, if there is one, and loads its vectors.
#define FETCH_NEXT(k_first, more)                                                            \
    [[unroll]] for (uint l = 0u; l < LOADS_A; ++l) a_next[l] += (more) ? a_advance : 0u;          \
    [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) b_next[l] += (more) ? b_advance : 0u;          \
    FETCH(k_first)

void main() {
    DECLARE_UNIT
    uvec2 corner = uvec2(gl_WorkGroupID.y * TILE_M, gl_WorkGroupID.x * TILE_N);
    uint batch_idx = push.batch_first + gl_WorkGroupID.z;
    uvec2 base = batch_idx * uvec2(push.stride_a, push.stride_b);
    uint base_c = batch_idx * push.stride_c;

    precise float acc[THREAD_M][THREAD_N];
    [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
        [[unroll]] for (uint j = 0u; j < THREAD_N; ++j) {
            uint m = ROW_OF(i);
            uint n = COLUMN_OF(j / 4u) + j % 4u;
            acc[i][j] = 0.0;
            if (START == 1u && n < push.n) acc[i][j] = bias[n];
            if (START == 2u && m < push.m && n < push.n) acc[i][j] = c[base_c + m * push.n + n];
        }
    }

    vec4 a_staged[LOADS_A];
    vec4 b_staged[LOADS_B];
    // Plain loads: offsets of the fetched step's vectors, in vectors, and how far a step goes.
    uint a_next[LOADS_A];
    uint b_next[LOADS_B];
    uint a_advance = (TRANS_A ? K_STEP * push.m : K_STEP) >> 2;
    uint b_advance = (TRANS_B ? K_STEP : K_STEP * push.n) >> 2;
    [[unroll]] for (uint l = 0u; l < LOADS_A; ++l) {
        Place p = place_of(l, !TRANS_A, TILE_M);
        a_next[l] = (base.x + plain_offset(p, corner.x, !TRANS_A, push.m, push.k)) >> 2;
    }
    [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) {
        Place p = place_of(l, TRANS_B, TILE_N);
        b_next[l] = (base.y + plain_offset(p, corner.y, TRANS_B, push.n, push.k)) >> 2;
    }

    uint steps = (push.k + K_STEP - 1u) / K_STEP;
    STEPS(steps)

#ifdef HAS_EPILOGUE
    if (EPILOGUE == 2u || EPILOGUE == 3u) {
        vec4 next[GROUPS_N];
        [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g)
            if (EPILOGUE == 3u) next[g] = load_other(base_c, ROW_OF(0u), COLUMN_OF(g));
        [[dont_unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
            [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g) {
                vec4 x = next[g];
                if (EPILOGUE == 3u && i + 1u < THREAD_M)
                    next[g] = load_other(base_c, ROW_OF(i + 1u), COLUMN_OF(g));
                vec4 v;
                vec4 y;
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    v[j] = hlx_pos0(acc[0][4u * g + j]);
                    if (EPILOGUE == 2u) y[j] = activation_forward(v[j]);
                    else v[j] = activation_backward(x[j], v[j]);
                }
                store(base_c, ROW_OF(i), COLUMN_OF(g), v);
                if (EPILOGUE == 2u) store_extra(base_c, ROW_OF(i), COLUMN_OF(g), y);
            }
            [[unroll]] for (uint r = 0u; r + 1u < THREAD_M; ++r)
                [[unroll]] for (uint j = 0u; j < THREAD_N; ++j) acc[r][j] = acc[r + 1u][j];
        }
        return;
    }
#endif
    [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
        [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g) {
            vec4 v;
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = hlx_pos0(acc[i][4u * g + j]);
#ifdef HAS_EPILOGUE
            vec4 x = vec4(0.0);
            if (EPILOGUE == 1u) x = load_other(base_c, ROW_OF(i), COLUMN_OF(g));
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                if (EPILOGUE == 1u) v[j] = hlx_add(v[j], x[j]);
                if (EPILOGUE == 4u) v[j] = hlx_mul(v[j], push.scalar);
            }
#endif
            store(base_c, ROW_OF(i), COLUMN_OF(g), v);
        }
    }
}
