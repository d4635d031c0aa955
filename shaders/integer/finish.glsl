// What the kernels of products over integers share: operands, the tile of a workgroup, and what follows a sum. Rows are cut
// into pieces, which have exponents of their own. C[i, m, n] of product i is r_0 + r_1 + .., added in order, with
//   r_p = (sum over the piece's k of a[i, m, k] b[i % groups, n, k], rounded once) 2^-(e_a[i, m, p] + e_b[i % groups, n, p]),
// -0 to +0; then bias[i % groups, n] is added, -0 to +0; then ADDS adds extra, or what C held. A piece with a NaN or an
// infinity gives NaN.
//
// a: batch M rows in two planes, b: groups N rows in one, of units of 16 digits (include/integer.glsl says where they lie);
// exponents: [rows, pieces];
// C: [batch, M, N], or TURNED [batch, N, M], from c_first on with its last rows c_row apart. BOUNDED products: tile.glsl.
#include "../include/integer.glsl"

layout(constant_id = 0) const bool HAS_BIAS = false;
// What is added at the end: 0 nothing, 1 extra, 2 C itself, which has one piece then.
layout(constant_id = 1) const uint ADDS = 0;
// N, c_first and c_row are multiples of four; TURNED without a bias, the last two.
layout(constant_id = 2) const bool VECTORS = false;
layout(constant_id = 3) const uint PIECE_TERMS = HLX_PIECE;
layout(constant_id = 8) const bool TURNED = false;
layout(constant_id = 9) const uint BOUNDED = 0;
// Where the digits of a and of b lie.
layout(constant_id = 15) const bool A_IN_PIECES = false;
layout(constant_id = 16) const bool B_IN_PIECES = false;

layout(push_constant) uniform Push {
    uint batch, m, n;
    uint units;  // of a row, a multiple of 4
    uint groups, c_first, c_row;
    // Of BOUNDED products the first group, and how many there are.
    uint first_group, n_groups;
#ifdef B_IN_BLOCKS
    uint blocks;  // of a row of b
#else
    uint b_rows;  // of all of b
#endif
} push;

layout(set = 0, binding = 0) readonly restrict buffer A { uvec4 a[]; };
layout(set = 0, binding = 1) readonly restrict buffer AExponents { int a_exponents[]; };
#ifndef B_IN_BLOCKS
layout(set = 0, binding = 2) readonly restrict buffer B { uvec4 b[]; };
layout(set = 0, binding = 3) readonly restrict buffer BExponents { int b_exponents[]; };
#endif
layout(set = 0, binding = 4) readonly buffer Bias { float bias[]; };
HLX_WITH_VECTORS(5, readonly, float, Extra, extra)
HLX_WITH_VECTORS(6, , float, C, c)
layout(set = 0, binding = 7) readonly buffer Bounds { uint bounds[]; };

#include "tile.glsl"

// What a piece's result is added to before and after its bias: C's earlier pieces, and the end's operand.
bool adds_earlier(uint piece) { return piece > tile.first_piece; }
bool adds_last(uint piece) { return ADDS != 0u && piece + 1u == tile.end_piece; }
bool adds_bias(uint piece) { return HAS_BIAS && piece + 1u == tile.end_piece; }

// A result on its way to C, from that of its piece.
float continued(float result, float earlier, uint piece, uint b_row) {
    precise float v = result;
    if (adds_earlier(piece)) v = hlx_add(earlier, v);
    if (adds_bias(piece)) v = hlx_pos0(hlx_add(v, bias[b_row]));
    return v;
}

// Stores the result of a piece of row i and column j of the tile, which it has.
void finish_one(float result, uint piece, uint i, uint j) {
    uint at = place_in_c(i, j);
    precise float v = continued(result, adds_earlier(piece) ? c[at] : 0.0, piece, tile.b_first + j);
    if (adds_last(piece)) v = hlx_add(v, ADDS == 1u ? extra[at] : c[at]);
    c[at] = v;
}

// Stores four results of a piece, of neighbouring columns of a row of the tile; those past an edge are left out.
void finish(vec4 results, uint piece, uint i, uint j) {
    if (tile.a_first + i >= tile.a_end || tile.b_first + j >= tile.b_end) return;
    precise vec4 v = results;
    if (VECTORS && !TURNED) {
        uint at = place_in_c(i, j);
        vec4 earlier = adds_earlier(piece) ? c_vectors[at / 4u] : vec4(0.0);
        [[unroll]] for (uint l = 0u; l < 4u; ++l)
            v[l] = continued(v[l], earlier[l], piece, tile.b_first + j + l);
        if (adds_last(piece)) {
            vec4 other = ADDS == 1u ? extra_vectors[at / 4u] : c_vectors[at / 4u];
            [[unroll]] for (uint l = 0u; l < 4u; ++l) v[l] = hlx_add(v[l], other[l]);
        }
        c_vectors[at / 4u] = v;
        return;
    }
    [[unroll]] for (uint l = 0u; l < 4u; ++l)
        if (tile.b_first + j + l < tile.b_end) finish_one(v[l], piece, i, j + l);
}
