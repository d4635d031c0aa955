// The start-up probe of cooperative matrices of 8-bit integers, as the products use them: loads from shared memory
// with offsets and strides, sums over two steps, two sums combined element by element, factors that are loaded with a
// stride of zero, and a store with an offset.
//   out[m, n] = (256 sum_k high[m, k] b[n, k] + sum_k low[m, k] b[n, k]) row[m] column[n], m < M, n < N, k < 2 K, modulo 2^32,
// where row and column are the numbers from 1 on.
// operands: 2 K + 16 bytes per row (the last 16 are not used) of M rows of high, then of low, then of N rows of b.
#include "../include/matrices.glsl"

layout(constant_id = 7) const uint THREADS = 32;
layout(local_size_x_id = 7) in;

layout(set = 0, binding = 0) readonly buffer Operands { uint operands[]; };
layout(set = 0, binding = 1) writeonly buffer Result { uint result[]; };

// In words: of a row, where the operands begin in shared memory, and where the result does.
const uint STRIDE = DEPTH / 2u + 4u;
const uint LINES = 2u * SIDE_M + SIDE_N;
const uint FIRST = 28u;
const uint RESULT = FIRST + LINES * STRIDE + 8u;
const uint RESULT_STRIDE = SIDE_N + 8u;
const uint WHOLE = RESULT + SIDE_M * RESULT_STRIDE;

#ifdef WORDS
#define PART 1u
shared uint tile[WHOLE];
void put(uint word, uint v) { tile[word] = v; }
uint got(uint word) { return tile[word]; }
#else
#define PART 4u
shared uvec4 tile[WHOLE / PART];
void put(uint word, uint v) { tile[word / PART][word % PART] = v; }
uint got(uint word) { return tile[word / PART][word % PART]; }
#endif
shared int factors[SIDE_M + SIDE_N];

void main() {
    for (uint at = gl_LocalInvocationIndex; at < LINES * STRIDE; at += THREADS) put(FIRST + at, operands[at]);
    for (uint at = gl_LocalInvocationIndex; at < SIDE_M + SIDE_N; at += THREADS)
        factors[at] = int(at < SIDE_M ? at : at - SIDE_M) + 1;
    barrier();
    Sums sums[2] = {Sums(0), Sums(0)};
    [[unroll]] for (uint step = 0u; step < 2u; ++step) {
        uint at = FIRST + step * DEPTH / 4u;
        Right right;
        coopMatLoad(right, tile, (at + 2u * SIDE_M * STRIDE) / PART, STRIDE / PART, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint plane = 0u; plane < 2u; ++plane) {
            Left left;
            coopMatLoad(left, tile, (at + plane * SIDE_M * STRIDE) / PART, STRIDE / PART,
                        gl_CooperativeMatrixLayoutRowMajor);
            sums[plane] = coopMatMulAdd(left, right, sums[plane]);
        }
    }
    Sums of_rows;
    Sums of_columns;
    coopMatLoad(of_rows, factors, 0u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    coopMatLoad(of_columns, factors, SIDE_M, 0u, gl_CooperativeMatrixLayoutRowMajor);
    Sums both = sums[0];
    [[unroll]] for (uint i = 0u; i < both.length(); ++i)
        both[i] = ((sums[0][i] << 8) + sums[1][i]) * of_rows[i] * of_columns[i];
    coopMatStore(both, tile, RESULT / PART, RESULT_STRIDE / PART, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    for (uint at = gl_LocalInvocationIndex; at < SIDE_M * SIDE_N; at += THREADS)
        result[at] = got(RESULT + at / SIDE_N * RESULT_STRIDE + at % SIDE_N);
}
