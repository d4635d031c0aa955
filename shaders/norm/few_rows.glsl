// The rstd of a workgroup's few rows, by its 256 threads: 1 / sqrt((sum_k a[m,k]^2) / K + eps), the sum in the order of
// include/reduce.glsl. A shader declares a_scalars and push.m, and defines ROWS, NORM_TERMS (K) and NORM_EPS.
const uint NORM_THREADS = 256u;
const uint NORM_LANES = 128u;

shared float norm_lanes[ROWS * NORM_LANES];
shared float norm_partials[ROWS * 32u];
shared float norm_eighths[ROWS * 8u];
shared float rstds[ROWS];

// The rstd of every row, for all threads: the upper half of them are the lanes of a row.
void norm_rows(uint first_m) {
    uint thread = gl_LocalInvocationIndex;
    if (thread >= NORM_LANES) {
        precise float sums[ROWS];
        [[unroll]] for (uint row = 0u; row < ROWS; ++row) sums[row] = 0.0;
        // Eight loads of each row are under way together.
        for (uint first_k = thread - NORM_LANES; first_k < NORM_TERMS; first_k += 8u * NORM_LANES) {
            precise float x[ROWS][8];
            [[unroll]] for (uint row = 0u; row < ROWS; ++row)
                [[unroll]] for (uint i = 0u; i < 8u; ++i)
                    x[row][i] = a_scalars[min(first_m + row, push.m - 1u) * NORM_TERMS +
                                          min(first_k + i * NORM_LANES, NORM_TERMS - 1u)];
            [[unroll]] for (uint row = 0u; row < ROWS; ++row)
                [[unroll]] for (uint i = 0u; i < 8u; ++i)
                    if (first_k + i * NORM_LANES < NORM_TERMS)
                        sums[row] = hlx_add(sums[row], hlx_mul(x[row][i], x[row][i]));
        }
        [[unroll]] for (uint row = 0u; row < ROWS; ++row) norm_lanes[row * NORM_LANES + thread - NORM_LANES] = sums[row];
    }
    barrier();
    for (uint at = thread; at < ROWS * 32u; at += NORM_THREADS) {
        uint lane = at / 32u * NORM_LANES + at % 32u;
        precise float even = hlx_add(norm_lanes[lane], norm_lanes[lane + 64u]);
        precise float odd = hlx_add(norm_lanes[lane + 32u], norm_lanes[lane + 96u]);
        norm_partials[at] = hlx_add(even, odd);
    }
    barrier();
    for (uint at = thread; at < ROWS * 8u; at += NORM_THREADS) {
        uint first = at / 8u * 32u + at % 8u;
        precise float even = hlx_add(norm_partials[first], norm_partials[first + 16u]);
        precise float odd = hlx_add(norm_partials[first + 8u], norm_partials[first + 24u]);
        norm_eighths[at] = hlx_add(even, odd);
    }
    barrier();
    if (thread < ROWS) {
        precise float p[8];
        for (uint i = 0u; i < 8u; ++i) p[i] = norm_eighths[thread * 8u + i];
        for (uint width = 4u; width > 0u; width >>= 1)
            for (uint i = 0u; i < width; ++i) p[i] = hlx_add(p[i], p[i + width]);
        precise float square = hlx_div(hlx_pos0(p[0]), float(NORM_TERMS));
        rstds[thread] = hlx_div(1.0, hlx_sqrt(hlx_add(square, NORM_EPS)));
    }
    barrier();
}
