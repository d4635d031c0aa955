// c = a b: a is [M, K], b [K, N] and c [M, N], in tiles of 16 x 16; the kernel of gemm.py.
//
// Every element is one chain acc = fma(a, b, acc) over k = 0, 1, 2, .. from +0, as docs/numerics.md specifies a product:
// so it has the bits of hlx.matmul, on every device. Workgroups: N / 16 in x and M / 16 in y, rounded up.
#version 460
#include "../../shaders/include/math.glsl"

const uint TILE = 16u;
layout(local_size_x = 16, local_size_y = 16) in;

layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };

shared float tile_a[TILE][TILE];
shared float tile_b[TILE][TILE];

void main() {
    // The three lengths are M K, K N and M N, so that K^2 = (M K)(K N) / (M N). Rounded, it is exact for K below 2^20.
    float square = hlx_mul(float(a.length()), hlx_div(float(b.length()), float(c.length())));
    uint k_size = uint(hlx_add(hlx_sqrt(square), 0.5));
    uint m_size = uint(a.length()) / k_size;
    uint n_size = uint(b.length()) / k_size;

    uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
    uint y = gl_LocalInvocationID.y, x = gl_LocalInvocationID.x;
    precise float acc = 0.0;
    for (uint k = 0u; k < k_size; k += TILE) {
        bool has_a = row < m_size && k + x < k_size;
        bool has_b = column < n_size && k + y < k_size;
        tile_a[y][x] = has_a ? a[row * k_size + k + x] : 0.0;
        tile_b[y][x] = has_b ? b[(k + y) * n_size + column] : 0.0;
        barrier();
        uint count = min(TILE, k_size - k);
        for (uint i = 0u; i < count; i++) {
            acc = hlx_fma(tile_a[y][i], tile_b[i][x], acc);
        }
        barrier();
    }
    if (row < m_size && column < n_size) {
        c[row * n_size + column] = hlx_pos0(acc);
    }
}
