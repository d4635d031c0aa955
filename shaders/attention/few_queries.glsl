// Attention over ranges for few queries of a sample, without documents: what its two kernels share.
//
// A key head's rows are its queries in the query heads that share it, R = T G of them with G heads:
// row r is query r / G in the key head's query head r % G. Between the two kernels lie
//   scores: [B, key heads, R, 32 BLOCKS], only those of blocks with a key that a row of 8 sees;
//   tops: [B, key heads, R, BLOCKS], the largest score of each block of 32 keys.
// Every query's document begins at key 0, so that blocks are the same for all rows.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "ranged_operands.glsl"
#include "vectors.glsl"

#define BLOCK 32u
#define BLOCKS ((push.keys + BLOCK - 1u) / BLOCK)

uint key_heads() { return push.heads / push.group; }
uint rows_of_key_head() { return push.queries * push.group; }
// The first block of a row.
uint row_blocks(uint sample_idx, uint key_head, uint row) {
    return ((sample_idx * key_heads() + key_head) * rows_of_key_head() + row) * BLOCKS;
}
