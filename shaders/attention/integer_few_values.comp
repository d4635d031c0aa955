// Attention over ranges in the integer arithmetic for few queries: from the scores to the sums of values.
//   m' = max(m, tops[r, b]), c = exp(m - m'), p_j = exp(scores[r, j] - m'), L their sum by halves, u_j = p_j 2^-e_v(j)
//   as integers with two digits of the block: l = fma(l, c, L), o = fma(o, c, product(sum_j u_j v[j]))
//   o[r] = o / l; stats = (m, 1 / l); zeros where r sees no key. o: [B, T, H, D]; stats: [B, H, T, 2].
// A workgroup has some columns of up to four rows of a key head, and takes 16 blocks of keys at a time: four threads make the
// weights of a block of a row, one sums four columns of it, and one adds a column's blocks in order. What a thread loads, it loads
// at once, before anything waits for it.
#define PAGES_SLOT 6
#include "integer_few.glsl"

#define ROWS 4u
#define ROUND 16u
// Keys whose values a thread loads at a time.
#define AHEAD 16u
// 16, 32 or 64.
layout(constant_id = 9) const uint COLUMNS = 16;
#define WORDS_OF_COLUMNS (COLUMNS / 4u)
#define PARTS 4u
#define OWN (BLOCK / PARTS)
layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer V { uint v[]; };
layout(set = 0, binding = 1) readonly restrict buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 2) readonly restrict buffer Scores { float scores[]; };
layout(set = 0, binding = 3) readonly restrict buffer Tops { float tops[]; };
layout(set = 0, binding = 4) writeonly restrict buffer O { float o[]; };
layout(set = 0, binding = 5) writeonly restrict buffer Stats { float stats[]; };

// The keys that each row sees.
shared uvec2 seen[ROWS];
// Of each row and block of a round: the largest score, m before and behind it, c, L, and the factors of the weights' exponent.
shared float largest[ROWS * ROUND];
shared float before[ROWS * ROUND];
shared float maxima[ROWS * ROUND];
shared float corrections[ROWS * ROUND];
shared float block_sums[ROWS * ROUND];
shared vec2 factors[ROWS * ROUND];
// Of the four threads of a block of a row: the sum of what they have by halves, and their largest magnitude.
shared float part_sums[ROWS * ROUND * PARTS];
shared uint part_tops[ROWS * ROUND * PARTS];
shared int integers[ROWS * ROUND * BLOCK];
shared float products[ROWS * ROUND * COLUMNS];

const float NOTHING = uintBitsToFloat(0xff800000u);

bool sees_block(uint row, uint block) {
    uvec2 range = seen[row];
    return range.x < range.y && block * BLOCK < range.y && block * BLOCK + BLOCK > range.x;
}

void main() {
    FIND_ROWS(uint column_tiles = (D + COLUMNS - 1u) / COLUMNS;
              uint first_d = hlx_group() % column_tiles * COLUMNS;, column_tiles)

    uint thread = gl_LocalInvocationIndex;
    if (thread < n) seen[thread] = ranges[sample_idx * push.queries + query_of(first_row + thread)].yz;
    barrier();
    uint begin = 0xffffffffu;
    uint end = 0u;
    for (uint r = 0u; r < n; ++r)
        if (seen[r].x < seen[r].y) {
            begin = min(begin, seen[r].x / BLOCK);
            end = max(end, (seen[r].y + BLOCK - 1u) / BLOCK);
        }
    begin = min(begin, end);

    uint behind = all_key_rows() * WORDS;
    uint blocks_at = row_blocks(sample_idx, key_head, first_row);
    // Of a row whose maxima a thread joins, and of a column whose blocks it adds.
    precise float m = NOTHING;
    precise float l = 0.0;
    precise float sum = 0.0;
    [[dont_unroll]] for (uint block0 = begin; block0 < end; block0 += ROUND) {
        uint pair = thread / PARTS;
        uint part = thread % PARTS;
        uint row = pair / ROUND;
        uint block = block0 + pair % ROUND;
        bool weighs = row < n && sees_block(min(row, n - 1u), block);
        precise float own_scores[OWN];
        int exponents[OWN];
        if (weighs) {
            uint first_key = block_row(sample_idx, key_head, block * BLOCK);
            uint last = push.keys - 1u - block * BLOCK;
            [[unroll]] for (uint i = 0u; i < OWN; ++i) {
                uint in_block = part + PARTS * i;
                own_scores[i] = scores[(blocks_at + row * BLOCKS + block) * BLOCK + in_block];
                exponents[i] = int(v[behind + first_key + min(in_block, last)]);
            }
        }
        bool joins = thread < n * ROUND && sees_block(min(thread / ROUND, n - 1u), block0 + thread % ROUND);
        if (thread < n * ROUND)
            largest[thread] = joins ? tops[blocks_at + thread / ROUND * BLOCKS + block0 + thread % ROUND] : NOTHING;
        barrier();
        if (thread < n)
            for (uint b = 0u; b < ROUND; ++b) {
                uint at = thread * ROUND + b;
                before[at] = m;
                m = hlx_max(m, largest[at]);
                maxima[at] = m;
            }
        barrier();
        if (thread < n * ROUND)
            corrections[thread] = joins ? exp_below(hlx_sub(before[thread], maxima[thread])) : 1.0;
        precise float u[OWN];
        if (weighs) {
            // Keys part, part + 4, ..: their sums by halves stay within the thread down to 4.
            precise float halves[OWN];
            uint top = 0u;
            [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) {
                uint key = block * BLOCK + part + PARTS * i;
                bool sees = key >= seen[row].x && key < seen[row].y;
                precise float p = sees ? exp_below(hlx_sub(own_scores[i], maxima[pair])) : 0.0;
                halves[i] = p;
                u[i] = sees ? folded(p, hlx_factors(exponents[i])) : 0.0;
                top = max(top, hlx_magnitude(u[i]));
            }
            [[dont_unroll]] for (uint half_n = OWN / 2u; half_n > 0u; half_n /= 2u)
                [[dont_unroll]] for (uint i = 0u; i < half_n; ++i)
                    halves[i] = hlx_add(halves[i], halves[i + half_n]);
            part_sums[thread] = halves[0];
            part_tops[thread] = top;
        }
        barrier();
        if (weighs) {
            uint at = pair * PARTS;
            uint top = max(max(part_tops[at], part_tops[at + 1u]), max(part_tops[at + 2u], part_tops[at + 3u]));
            int exponent = hlx_row_exponent(top, true);
            vec2 scale = hlx_scale(exponent);
            [[dont_unroll]] for (uint i = 0u; i < OWN; ++i)
                integers[pair * BLOCK + part + PARTS * i] = hlx_quantised(u[i], exponent, scale);
            if (part == 0u) {
                factors[pair] = hlx_factors(exponent);
                precise float left = hlx_add(part_sums[at], part_sums[at + 2u]);
                precise float right = hlx_add(part_sums[at + 1u], part_sums[at + 3u]);
                block_sums[pair] = hlx_add(left, right);
            }
        }
        barrier();
        for (uint item = thread; item < n * ROUND * WORDS_OF_COLUMNS; item += 256u) {
            uint word = item % WORDS_OF_COLUMNS;
            uint own = item / WORDS_OF_COLUMNS;
            uint own_block = block0 + own % ROUND;
            if (!sees_block(own / ROUND, own_block)) continue;
            ivec4 total = ivec4(0);
            uint first_key = block_row(sample_idx, key_head, own_block * BLOCK);
            uint last = push.keys - 1u - own_block * BLOCK;
            uint own_word = min(first_d / 4u + word, WORDS - 1u);
            [[dont_unroll]] for (uint j = 0u; j < BLOCK; j += AHEAD) {
                uint words[AHEAD];
                [[unroll]] for (uint i = 0u; i < AHEAD; ++i)
                    words[i] = v[(first_key + min(j + i, last)) * WORDS + own_word];
                [[unroll]] for (uint i = 0u; i < AHEAD; ++i)
                    total += integers[own * BLOCK + j + i] * digits_of(words[i]);
            }
            for (uint i = 0u; i < 4u; ++i) {
                precise float product = hlx_pos0(folded(float_of_sum(total[i]), factors[own]));
                products[own * COLUMNS + 4u * word + i] = product;
            }
        }
        barrier();
        if (thread < n * COLUMNS)
            for (uint b = 0u; b < ROUND; ++b) {
                uint own = thread / COLUMNS * ROUND + b;
                if (!sees_block(thread / COLUMNS, block0 + b)) continue;
                sum = hlx_fma(sum, corrections[own], products[own * COLUMNS + thread % COLUMNS]);
                l = hlx_fma(l, corrections[own], block_sums[own]);
            }
    }

    uint row = thread / COLUMNS;
    uint d = first_d + thread % COLUMNS;
    if (row >= n) return;
    bool sees = seen[row].x < seen[row].y;
    uint head = head_of(key_head, first_row + row);
    uint query = query_of(first_row + row);
    STORE_RESULT(sum, l, maxima[row * ROUND + ROUND - 1u])
}
