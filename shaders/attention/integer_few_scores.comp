// Attention over ranges in the integer arithmetic for few queries: the scores and their maxima by blocks of 32 keys.
//   scores[r, j] = score(product(sum_d q[r, d] k[j, d])); -inf where row r does not see j
//   tops[r, b] = max of scores[r, j] over the keys of block b, +0 for either zero
// A workgroup has a block of keys and up to 8 rows of a key head. Eight threads share a key's sums: each has every eighth
// word of its digits, for all rows.
#define PAGES_SLOT 5
#include "integer_few.glsl"

#define ROWS 8u
#define PARTS 8u
layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer Q { uint q[]; };
layout(set = 0, binding = 1) readonly restrict buffer K { uint k[]; };
layout(set = 0, binding = 2) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Scores { float scores[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Tops { float tops[]; };

// Of each row and key.
shared int partial[ROWS * BLOCK * PARTS];
shared float row_scores[ROWS * BLOCK];

// The row of a key head's row among those of all queries.
uint query_row(uint sample_idx, uint key_head, uint row) {
    return stats_base(sample_idx, head_of(key_head, row)) + query_of(row);
}

void main() {
    FIND_ROWS(uint block = hlx_group() % BLOCKS;, BLOCKS)
    uint key0 = block * BLOCK;
    bool seen = false;
    for (uint t = query_of(first_row); t <= query_of(first_row + n - 1u); ++t) {
        uvec4 range = ranges[sample_idx * push.queries + t];
        seen = seen || (range.y < range.z && key0 < range.z && key0 + BLOCK > range.y);
    }
    if (!seen) return;

    uint thread = gl_LocalInvocationIndex;
    uint first_key = block_row(sample_idx, key_head, key0);
    uint last_lane = push.keys - 1u - key0;
    uint plane = push.batch * push.heads * push.queries * WORDS;
    uint own_key = first_key + min(thread / PARTS, last_lane);
    for (uint r = 0u; r < n; ++r) {
        uint at = query_row(sample_idx, key_head, first_row + r) * WORDS;
        int sum = 0;
        [[dont_unroll]] for (uint w = thread % PARTS; w < WORDS; w += PARTS) {
            ivec4 x = 256 * digits_of(q[at + w]) + digits_of(q[plane + at + w]);
            ivec4 products = x * digits_of(k[own_key * WORDS + w]);
            sum += (products.x + products.y) + (products.z + products.w);
        }
        partial[r * BLOCK * PARTS + thread] = sum;
    }
    barrier();
    uint row = thread / BLOCK;
    uint lane = thread % BLOCK;
    uint blocks_at = row_blocks(sample_idx, key_head, first_row + row) + block;
    if (row < n) {
        int sum = 0;
        for (uint part = 0u; part < PARTS; ++part) sum += partial[thread * PARTS + part];
        uvec4 range = ranges[sample_idx * push.queries + query_of(first_row + row)];
        uint key = key0 + lane;
        vec2 of_row = FACTORS(q, 2u * plane, query_row(sample_idx, key_head, first_row + row));
        vec2 of_key = FACTORS(k, all_key_rows() * WORDS, first_key + min(lane, last_lane));
        precise float t;
        precise float s = score(hlx_result_of_sum(float_of_sum(sum), of_row, of_key), t);
        if (key < range.y || key >= range.z) s = uintBitsToFloat(0xff800000u);
        row_scores[thread] = s;
        scores[blocks_at * BLOCK + lane] = s;
    }
    barrier();
    if (row >= n || lane > 0u) return;
    precise float top = uintBitsToFloat(0xff800000u);
    for (uint j = 0u; j < BLOCK; ++j) top = hlx_max(top, row_scores[row * BLOCK + j]);
    tops[blocks_at] = hlx_pos0(top);
}
