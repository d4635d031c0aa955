// Attention over ranges in the integer arithmetic: operands, and what all its kernels compute alike.
//
// Operands have their digits first, [planes, rows, WORDS] with four digits a word, then an exponent per row; rows are
// [batch, heads, positions] (prepare_heads.comp).
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#include "../include/integer.glsl"
#include "ranged_operands.glsl"
#include "integer_numbers.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Q { uint q[]; };
layout(set = 0, binding = 1) readonly restrict buffer K { uint k[]; };
layout(set = 0, binding = 2) readonly restrict buffer V { uint v[]; };
layout(set = 0, binding = 3) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 4) readonly restrict buffer Counter { uint step_and_base[]; };

// Columns of a block: keys, or queries.
const uint COLS = 32u;
// Columns of a workgroup's result, twice as many by matrices for wider heads, and workgroups for all of them.
#ifdef CHUNKS_OF_MATRICES
const uint CHUNK = D > 64u ? 128u : 64u;
#else
const uint CHUNK = 64u;
#endif
const uint CHUNKS = (D + CHUNK - 1u) / CHUNK;

#include "vectors.glsl"
#include "draws.glsl"

// What a workgroup computes: a chunk of the columns of a tile of rows of a head.
uint tile;
uint chunk;
uint sample_idx;
uint own_head;

// Finds it, of this many tiles per head; false past the last one.
bool find_place(uint tiles, uint heads) {
    uint all_heads = push.batch * heads;
    tile = hlx_group() / (all_heads * CHUNKS);
    chunk = hlx_group() / all_heads % CHUNKS;
    sample_idx = hlx_group() % all_heads / heads;
    own_head = hlx_group() % heads;
    return tile < tiles;
}

uint query_rows() { return push.batch * push.heads * push.queries; }
uint key_rows() {
    return push.heads / push.group * (PAGED ? push.pool_pages * PAGE : push.batch * push.keys);
}
// The first row of a head's keys.
uint keys_of(uint sample_idx, uint head) {
    return (sample_idx * (push.heads / push.group) + head / push.group) * push.keys;
}
// The row of a head's key that begins a block.
uint block_row(uint sample_idx, uint head, uint key0) {
    if (PAGED) return (page_of(sample_idx, key0) * (push.heads / push.group) + head / push.group) * PAGE;
    return keys_of(sample_idx, head) + key0;
}
