// Which rows of a matrix x, [rows, k], are zeros alone: counted: [rows], the exponent of zeros, else 0. A subnormal is zero, a
// NaN is not. 32 threads have a row.
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

// k is a multiple of four.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint rows;
    uint k;
} push;

HLX_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Counted { int counted[]; };

const uint ROWS = 8u;
const uint THREADS = 32u;

shared uint tops[ROWS][THREADS];

void main() {
    uint own = gl_LocalInvocationID.x / THREADS;
    uint lane = gl_LocalInvocationID.x % THREADS;
    uint row = hlx_group() * ROWS + own;
    uint at = min(row, push.rows - 1u) * push.k;
    uint top = 0u;
    if (VECTORS) {
        for (uint i = lane; i < push.k / 4u; i += THREADS) {
            vec4 v = x_vectors[at / 4u + i];
            [[unroll]] for (uint c = 0u; c < 4u; ++c) top = max(top, hlx_magnitude(v[c]));
        }
    } else {
        for (uint i = lane; i < push.k; i += THREADS) top = max(top, hlx_magnitude(x[at + i]));
    }
    tops[own][lane] = top;
    barrier();
    if (lane != 0u || row >= push.rows) return;
    for (uint i = 0u; i < THREADS; ++i) top = max(top, tops[own][i]);
    counted[row] = top != 0u ? 0 : HLX_EXPONENT_OF_ZEROS;
}
