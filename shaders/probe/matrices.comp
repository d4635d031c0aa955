// The start-up probe of cooperative matrices of 8-bit integers, as the products use them: loads from shared memory
// with offsets and strides, sums over two steps, two sums combined element by element, and a store with an offset.
//   out[m, n] = 256 sum_k high[m, k] b[n, k] + sum_k low[m, k] b[n, k], m, n < 16, k < 64, modulo 2^32.
// operands: 5 units of 16 bytes a row (the last is not used) of 16 rows of high, then of low, then of b.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 32) in;

layout(set = 0, binding = 0) readonly buffer Operands { uvec4 operands[]; };
layout(set = 0, binding = 1) writeonly buffer Result { uvec4 result[]; };

const uint STRIDE = 5u;
const uint PART = 16u * STRIDE;
// Where the operands begin in shared memory, and where the result does.
const uint FIRST = 7u;
const uint RESULT = FIRST + 3u * PART + 2u;
const uint RESULT_STRIDE = 6u;

shared uvec4 tile[RESULT + 16u * RESULT_STRIDE];

#define Left coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>
#define Right coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB>
#define Sums coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

void main() {
    for (uint at = gl_LocalInvocationIndex; at < 3u * PART; at += 32u) tile[FIRST + at] = operands[at];
    barrier();
    Sums sums[2] = {Sums(0), Sums(0)};
    [[unroll]] for (uint step = 0u; step < 2u; ++step) {
        Right right;
        coopMatLoad(right, tile, FIRST + 2u * PART + 2u * step, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint plane = 0u; plane < 2u; ++plane) {
            Left left;
            coopMatLoad(left, tile, FIRST + plane * PART + 2u * step, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            sums[plane] = coopMatMulAdd(left, right, sums[plane]);
        }
    }
    Sums both = sums[0];
    [[unroll]] for (uint i = 0u; i < both.length(); ++i) both[i] = (sums[0][i] << 8) + sums[1][i];
    coopMatStore(both, tile, RESULT, RESULT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    for (uint at = gl_LocalInvocationIndex; at < 64u; at += 32u)
        result[at] = tile[RESULT + at / 4u * RESULT_STRIDE + at % 4u];
}
