// Tiles that the attention kernels share: 64 rows against 32 columns a workgroup of 256 threads.
//
// Thread (tx, ty) = (thread % 16, thread / 16) holds the rows 4 ty .. 4 ty + 3 (one vec4) and the
// columns tx and tx + 16 of a 64 x 32 product, and the columns tx, tx + 16, tx + 32, ... of a
// 64 x D accumulator. Rows and columns are queries and keys in the forward and in dQ, keys and
// queries in dK and dV.
//
// 30,208 bytes of shared memory, so that 32 KiB is enough.

layout(local_size_x = 256) in;
const uint ROWS = 64u;
const uint COLS = 32u;

// Contraction operands, 32 of D at a time, transposed; the padding spreads the banks.
shared vec4 wide[32][17];
shared float narrow[32][33];
// The 64 x 32 product [column][row], and 64 columns of what it is multiplied by.
shared vec4 weights[32][17];
shared float values[32][64];

vec4 fma4(vec4 a, float b, vec4 c) {
    precise vec4 r = vec4(hlx_fma(a.x, b, c.x), hlx_fma(a.y, b, c.y), hlx_fma(a.z, b, c.z),
                          hlx_fma(a.w, b, c.w));
    return r;
}

vec4 mul4(vec4 a, vec4 b) {
    precise vec4 r =
        vec4(hlx_mul(a.x, b.x), hlx_mul(a.y, b.y), hlx_mul(a.z, b.z), hlx_mul(a.w, b.w));
    return r;
}

vec4 pos0_4(vec4 a) { return vec4(hlx_pos0(a.x), hlx_pos0(a.y), hlx_pos0(a.z), hlx_pos0(a.w)); }

#include "packed.glsl"

// Element (t, d) of a matrix that begins at `base`; zero past the ends.
#define FETCH(buffer, base, stride, t, d) \
    ((t) < push.time && (d) < D ? buffer[(base) + (t) * (stride) + (d)] : 0.0)

// 64 rows x 32 of D into `tile` (wide or weights), transposed.
#define LOAD_WIDE(tile, buffer, base, stride, row0, d0)                          \
    for (uint at = gl_LocalInvocationID.x; at < ROWS * 32u; at += 256u) {        \
        uint r = at >> 5;                                                        \
        uint d = at & 31u;                                                       \
        tile[d][r >> 2][r & 3u] = FETCH(buffer, base, stride, (row0) + r, (d0) + d); \
    }

#define LOAD_NARROW(buffer, base, stride, col0, d0)                              \
    for (uint at = gl_LocalInvocationID.x; at < COLS * 32u; at += 256u) {        \
        uint r = at >> 5;                                                        \
        uint d = at & 31u;                                                       \
        narrow[d][r] = FETCH(buffer, base, stride, (col0) + r, (d0) + d);        \
    }

// 32 rows x 64 of D, not transposed.
#define LOAD_VALUES(buffer, base, stride, row0, d0)                              \
    for (uint at = gl_LocalInvocationID.x; at < COLS * 64u; at += 256u) {        \
        uint r = at >> 6;                                                        \
        uint d = at & 63u;                                                       \
        values[r][d] = FETCH(buffer, base, stride, (row0) + r, (d0) + d);        \
    }

// near, far (columns tx and tx + 16) = chains over d of rows times columns. It begins with a
// barrier, so the tiles may still be read before it, and ends with all threads reading wide
// and narrow.
#define CONTRACT(near, far, a, a_base, a_stride, row0, b, b_base, b_stride, col0) \
    for (uint d0 = 0u; d0 < D; d0 += 32u) {                                      \
        barrier();                                                               \
        LOAD_WIDE(wide, a, a_base, a_stride, row0, d0)                           \
        LOAD_NARROW(b, b_base, b_stride, col0, d0)                               \
        barrier();                                                               \
        uint depth = min(32u, D - d0);                                           \
        for (uint d = 0u; d < depth; ++d) {                                      \
            near = fma4(wide[d][ty], narrow[d][tx], near);                       \
            far = fma4(wide[d][ty], narrow[d][tx + 16u], far);                   \
        }                                                                        \
    }                                                                            \
    near = pos0_4(near);                                                         \
    far = pos0_4(far);

// sums[c] (column tx + 16 c) += chain over the 32 columns of the product in `weights`, times the
// rows row0 .. row0 + 31 of a matrix. Of an edge, row k of the thread's four skips the columns j that are not
// SEES(k, j): times a weight of 0, an infinity would be NaN. It begins and ends with all threads between
// barriers.
#define ACCUMULATE(edge, SEES, sums, buffer, base, stride, row0)                 \
    [[unroll]] for (uint half_idx = 0u; half_idx < 2u; ++half_idx)               \
        if (64u * half_idx < D) {                                                \
            barrier();                                                           \
            LOAD_VALUES(buffer, base, stride, row0, 64u * half_idx)              \
            barrier();                                                           \
            if (!(edge)) {                                                       \
                for (uint j = 0u; j < COLS; ++j)                                 \
                    [[unroll]] for (uint c = 0u; c < 4u; ++c)                    \
                        if (64u * half_idx + 16u * c < D)                        \
                            sums[4u * half_idx + c] =                            \
                                fma4(weights[j][ty], values[j][tx + 16u * c], sums[4u * half_idx + c]); \
            } else {                                                             \
                for (uint j = 0u; j < COLS; ++j)                                 \
                    [[unroll]] for (uint k = 0u; k < 4u; ++k)                    \
                        if (SEES(k, j))                                          \
                            [[unroll]] for (uint c = 0u; c < 4u; ++c)            \
                                if (64u * half_idx + 16u * c < D)                \
                                    sums[4u * half_idx + c][k] =                 \
                                        hlx_fma(weights[j][ty][k], values[j][tx + 16u * c], sums[4u * half_idx + c][k]); \
            }                                                                    \
        }

// Writes f(value) for a 64 x D accumulator's rows row0 .. that exist.
#define STORE_ROWS(buffer, base, stride, row0, sums, f)                          \
    [[unroll]] for (uint c = 0u; c < 8u; ++c)                                    \
        if (16u * c < D)                                                         \
            for (uint k = 0u; k < 4u; ++k) {                                     \
                uint t = (row0) + 4u * ty + k;                                   \
                uint d = tx + 16u * c;                                           \
                if (t < push.time && d < D)                                      \
                    buffer[(base) + t * (stride) + d] = f(sums[c][k], k);        \
            }

// The workgroup's rows of a head from row0 on, the thread's first, and where operands begin: in the conditions of their
// loads, within loops, each would be a division again.
#define OWN_TILE(first, tile)                                                    \
    uint tx = gl_LocalInvocationID.x & 15u;                                      \
    uint ty = gl_LocalInvocationID.x >> 4;                                       \
    uint tiles = (push.time + ROWS - 1u) / ROWS;                                 \
    uint head = hlx_group() / tiles;                                             \
    if (head >= push.heads) return;                                              \
    uint row0 = (tile) * ROWS;                                                   \
    uint first = row0 + 4u * ty;                                                 \
    uint queries_at = qkv_base(head, 0u);                                        \
    uint keys_at = qkv_base(head, 1u);                                           \
    uint values_at = qkv_base(head, 2u);
