// Attention over ranges in the integer arithmetic for few queries of a sample: what its two kernels share. Rows of a key head,
// scores and tops are those of few_queries.glsl; operands those of integer_operands.glsl.
#include "few_queries.glsl"
#include "../include/integer.glsl"
#include "integer_numbers.glsl"

// The row of a key head's key that begins a block.
uint block_row(uint sample_idx, uint key_head, uint key0) {
    if (PAGED) return (page_of(sample_idx, key0) * key_heads() + key_head) * PAGE;
    return (sample_idx * key_heads() + key_head) * push.keys + key0;
}
uint all_key_rows() {
    return key_heads() * (PAGED ? push.pool_pages * PAGE : push.batch * push.keys);
}
// The query and the head of a row.
uint query_of(uint row) { return row / push.group; }
uint head_of(uint key_head, uint row) { return key_head * push.group + row % push.group; }
