// What the products with weights in blocks share (finish.glsl, blocks.glsl). A piece of C[m, n] is c 2^-e_a[m], where c is a
// chain over the piece's blocks in order from +0: c = fma(d, S, c), and with minima c = fma(-dmin, M, c). S, the sum over groups
// of scale (sum of q a), and M, the sum over groups of min (sum of a), are integers, each rounded once.
#define B_IN_BLOCKS
#include "finish.glsl"
#include "blocks.glsl"
#ifdef DOTS
#include "byte_dot.glsl"
#else
#include "plain_dot.glsl"
#endif

// Chunks of a row of the weight, and of a piece.
uint chunks_of_row() { return (16u * push.units + CHUNK - 1u) / CHUNK; }
const uint PIECE_CHUNKS = PIECE_TERMS / CHUNK;
const uint UNITS_OF_GROUP = GROUP / 16u;

const uvec4 ONES = uvec4(0x01010101u);

// A chain behind one block.
float behind_block(float chain, float sum, float mins, vec2 factors) {
    precise float c = hlx_fma(factors.x, sum, chain);
    if (HAS_MINS) c = hlx_fma(-factors.y, mins, c);
    return c;
}
float float_of(int sum) { return hlx_float_of_sums(sum >> 8, sum & 255); }
