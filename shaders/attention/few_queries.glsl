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

// The rows of a workgroup, which `parts` workgroups share; OWN says which it is.
#define FIND_ROWS(OWN, parts)                                                    \
    uint all_rows = rows_of_key_head();                                          \
    uint row_tiles = (all_rows + ROWS - 1u) / ROWS;                              \
    OWN                                                                          \
    uint first_row = hlx_group() / (parts) % row_tiles * ROWS;                   \
    uint key_head = hlx_group() / (parts) / row_tiles % key_heads();             \
    uint sample_idx = hlx_group() / (parts) / row_tiles / key_heads();           \
    if (sample_idx >= push.batch) return;                                        \
    uint n = min(ROWS, all_rows - first_row);

// Writes column d of a row's output, and with column 0 its statistics.
#define STORE_RESULT(its_sum, its_l, its_m)                                      \
    if (d < D) {                                                                 \
        uint at = o_base(sample_idx, head) + query * O_STRIDE + d;               \
        o[at] = sees ? hlx_pos0(hlx_div(its_sum, its_l)) : 0.0;                  \
    }                                                                            \
    if (d == 0u) {                                                               \
        uint at = 2u * (stats_base(sample_idx, head) + query);                   \
        stats[at] = sees ? its_m : 0.0;                                          \
        stats[at + 1u] = sees ? hlx_div(1.0, its_l) : 0.0;                       \
    }
