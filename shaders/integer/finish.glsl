// What the kernels of products over integers share: operands, and what follows a sum. C[i, m, n] of product i is
// the sum over k of a[i, m, k] b[i, n, k], rounded once, times 2^-(e_a[i, m] + e_b[i, n]), -0 to +0; then bias[n]
// is added, -0 to +0; then ADDS adds extra, or what C holds. A row with a NaN or an infinity gives NaN.
//
// a: [2, batch M, units], b: [batch N, units] of 16 digits each (prepare*.comp); C: [batch, M, N].
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(constant_id = 0) const bool HAS_BIAS = false;
// What is added at the end: 0 nothing, 1 extra, 2 C itself.
layout(constant_id = 1) const uint ADDS = 0;
// N is a multiple of four.
layout(constant_id = 2) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint batch;
    uint m;
    uint n;
    uint units;  // of a row, a multiple of 4
} push;

layout(set = 0, binding = 0) readonly restrict buffer A { uvec4 a[]; };
layout(set = 0, binding = 1) readonly restrict buffer AExponents { int a_exponents[]; };
layout(set = 0, binding = 2) readonly restrict buffer B { uvec4 b[]; };
layout(set = 0, binding = 3) readonly restrict buffer BExponents { int b_exponents[]; };
layout(set = 0, binding = 4) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 5) readonly buffer Extra { float extra[]; };
layout(set = 0, binding = 5) readonly buffer ExtraVectors { vec4 extra_vectors[]; };
layout(set = 0, binding = 6) buffer C { float c[]; };
layout(set = 0, binding = 6) buffer CVectors { vec4 c_vectors[]; };

float with_bias(float v, uint n) {
    return HAS_BIAS ? hlx_pos0(hlx_add(v, bias[n])) : v;
}

// Stores four results of neighbouring columns, from their sums on; those past an edge are left out.
void finish(vec4 sums, uint product, uint m, uint n) {
    if (m >= push.m || n >= push.n) return;
    uint row = product * push.m + m;
    uint at = row * push.n + n;
    int of_a = a_exponents[row];
    precise vec4 v;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint column = min(n + j, push.n - 1u);
        v[j] = with_bias(hlx_result_of_sum(sums[j], of_a, b_exponents[product * push.n + column]), column);
    }
    if (VECTORS) {
        if (ADDS != 0u) {
            vec4 other = ADDS == 1u ? extra_vectors[at / 4u] : c_vectors[at / 4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = hlx_add(v[j], other[j]);
        }
        c_vectors[at / 4u] = v;
        return;
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        if (n + j >= push.n) break;
        if (ADDS != 0u) v[j] = hlx_add(v[j], ADDS == 1u ? extra[at + j] : c[at + j]);
        c[at + j] = v[j];
    }
}
