// Attention over ranges in the integer arithmetic for few queries: the scores and their maxima by blocks of 32 keys.
//   scores[r, j] = score(product(sum_d q[r, d] k[j, d])); -inf where row r does not see j
//   tops[r, b] = max of scores[r, j] over the keys of block b, +0 for either zero
// A workgroup has a block of keys and up to 8 rows of a key head, whose integers lie in shared memory. Eight threads share a key's
// sums: each has every eighth word of its digits, for all rows.
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

// Words of a key that a thread has.
const uint OWN = WORDS / PARTS;

shared ivec4 integers[ROWS * WORDS];
// Of each row and key.
shared int partial[ROWS * BLOCK * PARTS];
shared float row_scores[ROWS * BLOCK];
shared float eighths[ROWS * 8u];

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
    uint own_words = (first_key + min(thread / PARTS, last_lane)) * WORDS + thread % PARTS;
    uint words[OWN];
    [[unroll]] for (uint i = 0u; i < OWN; ++i) words[i] = k[own_words + i * PARTS];
    // What makes a score of the sum of a row and a key.
    uint row = thread / BLOCK;
    uint lane = thread % BLOCK;
    uint own_row = query_row(sample_idx, key_head, first_row + min(row, n - 1u));
    int of_row = int(q[2u * plane + own_row]);
    int of_key = int(k[all_key_rows() * WORDS + first_key + min(lane, last_lane)]);
    uvec4 range = ranges[sample_idx * push.queries + query_of(first_row + min(row, n - 1u))];
    for (uint item = thread; item < n * WORDS; item += 256u) {
        uint at = query_row(sample_idx, key_head, first_row + item / WORDS) * WORDS + item % WORDS;
        integers[item] = 256 * digits_of(q[at]) + digits_of(q[plane + at]);
    }
    barrier();
    for (uint r = 0u; r < n; ++r) {
        int sum = 0;
        [[unroll]] for (uint i = 0u; i < OWN; ++i) {
            ivec4 products = integers[r * WORDS + thread % PARTS + i * PARTS] * digits_of(words[i]);
            sum += (products.x + products.y) + (products.z + products.w);
        }
        partial[r * BLOCK * PARTS + thread] = sum;
    }
    barrier();
    uint blocks_at = row_blocks(sample_idx, key_head, first_row + row) + block;
    if (row < n) {
        int sum = 0;
        for (uint part = 0u; part < PARTS; ++part) sum += partial[thread * PARTS + part];
        uint key = key0 + lane;
        precise float t;
        precise float s = score(hlx_result_of_sum(float_of_sum(sum), hlx_factors(of_row), hlx_factors(of_key)), t);
        if (key < range.y || key >= range.z) s = uintBitsToFloat(0xff800000u);
        row_scores[thread] = s;
        scores[blocks_at * BLOCK + lane] = s;
    }
    barrier();
    // By four, then by eight.
    if (row < n && lane < 8u) {
        uint at = BLOCK * row + 4u * lane;
        precise float left = hlx_max(row_scores[at], row_scores[at + 1u]);
        precise float right = hlx_max(row_scores[at + 2u], row_scores[at + 3u]);
        eighths[8u * row + lane] = hlx_max(left, right);
    }
    barrier();
    if (row >= n || lane > 0u) return;
    precise float top = uintBitsToFloat(0xff800000u);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) top = hlx_max(top, eighths[8u * row + i]);
    tops[blocks_at] = hlx_pos0(top);
}
