// Which rows of a matrix x, [rows, k], are zeros alone: counted: [rows], the exponent of zeros, else 0. A subnormal is zero, a
// NaN is not. 32 threads have a row.
#include "tops_of_rows.glsl"

// k is a multiple of four.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint rows, k;
} push;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Counted { int counted[]; };

void main() {
    DECLARE_LANE
    uint row = hlx_group() * ROWS + own;
    uint at = min(row, push.rows - 1u) * push.k;
    uint top = 0u;
    if (VECTORS) {
        for (uint i = lane; i < push.k / 4u; i += THREADS) {
            vec4 v = x_vectors[at / 4u + i];
            ADD_TO_TOP(v)
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
