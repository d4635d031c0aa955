// The start-up probe of cooperative matrices of 16-bit floats, as the products use them: loads from shared memory by rows and by
// columns, sums over four steps that continue each other, and a store with an offset. Each workgroup computes
//   out[group, m, n] = sum_k a[m, k] b[k, n], m < M, n < N, k < 4 K,
// whose sums are of the device's order: the host compares workgroups, launches, and numbers whose sums are exact.
// operands: halves, rows of 4 K + 8 (the last 8 are not used): M rows of a, then b twice: its N columns as rows, then its 4 K rows
// of N + 8.
#include "../include/half_matrices.glsl"

layout(constant_id = 7) const uint THREADS = 32;
layout(local_size_x_id = 7) in;

layout(set = 0, binding = 0) readonly buffer Operands { uvec4 operands[]; };
layout(set = 0, binding = 1) writeonly buffer Result { float result[]; };

// In units of 8 halves.
const uint STEPS = 4u;
const uint STRIDE = STEPS * DEPTH / 8u + 1u;
const uint B_STRIDE = SIDE_N / 8u + 1u;
const uint IN_ROWS = (SIDE_M + SIDE_N) * STRIDE;
const uint WHOLE = IN_ROWS + STEPS * DEPTH * B_STRIDE;
// In words: with a padding of four.
const uint RESULT_STRIDE = SIDE_N + 4u;
shared uvec4 tile[WHOLE];
shared vec4 sums_of[2u * SIDE_M * RESULT_STRIDE / 4u];

void main() {
    for (uint at = gl_LocalInvocationIndex; at < WHOLE; at += THREADS) tile[at] = operands[at];
    barrier();
    Sums sums[2] = {Sums(0.0), Sums(0.0)};
    [[unroll]] for (uint step = 0u; step < STEPS; ++step) {
        Left left;
        Right right[2];
        coopMatLoad(left, tile, step * DEPTH / 8u, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(right[0], tile, SIDE_M * STRIDE + step * DEPTH / 8u, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(right[1], tile, IN_ROWS + step * DEPTH * B_STRIDE, B_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) sums[i] = coopMatMulAdd(left, right[i], sums[i]);
    }
    [[unroll]] for (uint i = 0u; i < 2u; ++i)
        coopMatStore(sums[i], sums_of, i * SIDE_M * RESULT_STRIDE / 4u, RESULT_STRIDE / 4u, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    for (uint at = gl_LocalInvocationIndex; at < 2u * SIDE_M * SIDE_N; at += THREADS) {
        uint word = at / SIDE_N * RESULT_STRIDE + at % SIDE_N;
        result[gl_WorkGroupID.x * 2u * SIDE_M * SIDE_N + at] = sums_of[word / 4u][word % 4u];
    }
}
