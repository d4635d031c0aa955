// What the kernels of products over integers share: operands, and what follows a sum. Rows are cut into pieces of
// PIECE_TERMS terms, which have exponents of their own. C[i, m, n] of product i is r_0 + r_1 + .., added in order, with
//   r_p = (sum over the piece's k of a[i, m, k] b[i, n, k], rounded once) 2^-(e_a[i, m, p] + e_b[i, n, p]),
// -0 to +0; then bias[n] is added, -0 to +0; then ADDS adds extra, or what C held. A piece with a NaN or an infinity
// gives NaN.
//
// a: [2, batch M, units], b: [batch N, units] of 16 digits each (prepare*.comp); exponents: [rows, pieces];
// C: [batch, M, N].
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(constant_id = 0) const bool HAS_BIAS = false;
// What is added at the end: 0 nothing, 1 extra, 2 C itself, which has one piece then.
layout(constant_id = 1) const uint ADDS = 0;
// N is a multiple of four.
layout(constant_id = 2) const bool VECTORS = false;
layout(constant_id = 3) const uint PIECE_TERMS = HLX_PIECE;

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

// Units of a piece.
const uint PIECE = PIECE_TERMS / 16u;

uint pieces() { return max((push.units + PIECE - 1u) / PIECE, 1u); }

// What a piece's result is added to before and after its bias: C's earlier pieces, and the end's operand.
bool adds_earlier(uint piece) { return piece > 0u; }
bool adds_last(uint piece) { return ADDS != 0u && piece + 1u == pieces(); }
bool adds_bias(uint piece) { return HAS_BIAS && piece + 1u == pieces(); }

// A result on its way to C, from that of its piece.
float continued(float result, float earlier, uint piece, uint n) {
    precise float v = result;
    if (adds_earlier(piece)) v = hlx_add(earlier, v);
    if (adds_bias(piece)) v = hlx_pos0(hlx_add(v, bias[n]));
    return v;
}

// Stores a result of a piece.
void finish_one(float result, uint piece, uint at, uint n) {
    precise float v = continued(result, adds_earlier(piece) ? c[at] : 0.0, piece, n);
    if (adds_last(piece)) v = hlx_add(v, ADDS == 1u ? extra[at] : c[at]);
    c[at] = v;
}

// Stores four results of neighbouring columns of a piece; those past an edge are left out.
void finish(vec4 results, uint piece, uint product, uint m, uint n) {
    if (m >= push.m || n >= push.n) return;
    uint at = (product * push.m + m) * push.n + n;
    precise vec4 v = results;
    if (VECTORS) {
        vec4 earlier = adds_earlier(piece) ? c_vectors[at / 4u] : vec4(0.0);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = continued(v[j], earlier[j], piece, n + j);
        if (adds_last(piece)) {
            vec4 other = ADDS == 1u ? extra_vectors[at / 4u] : c_vectors[at / 4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) v[j] = hlx_add(v[j], other[j]);
        }
        c_vectors[at / 4u] = v;
        return;
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (n + j < push.n) finish_one(v[j], piece, at + j, n + j);
}
