// Attention over ranges by matrices of integers, forward (ranged/integer.rs has the law). o: [B, T, H, D]; stats:
// [B, H, T, 2] = (m, 1 / l); zeros where a query sees no key.
#include "integer_matrices.glsl"

layout(set = 0, binding = 5) restrict buffer O { float o[]; };
layout(set = 0, binding = 6) writeonly restrict buffer Stats { float stats[]; };

// Columns of a workgroup's result.
const uint CHUNK = 64u;

void main() {
    uint own = gl_LocalInvocationIndex;
    uint all_heads = push.batch * push.heads;
    uint chunks = (D + CHUNK - 1u) / CHUNK;
    uint tiles = (push.queries + ROWS - 1u) / ROWS;
    // The last tiles of all heads, which see most keys if attention is causal, go first.
    uint tile = hlx_group() / (all_heads * chunks);
    if (tile >= tiles) return;
    uint chunk = hlx_group() / all_heads % chunks;
    uint sample_idx = hlx_group() % all_heads / push.heads;
    uint head = hlx_group() % push.heads;
    uint row0 = (tiles - 1u - tile) * ROWS;
    uint query = row0 + own;
    bool exists = query < push.queries;
    uvec4 range = exists ? ranges[sample_idx * push.queries + query] : uvec4(0u);
    tile_ranges[own] = range;
    subgroupBarrier();
    uint first_query = queries_of(sample_idx, head);
    uint row = first_query + min(query, push.queries - 1u);
    uint first_key = keys_of(sample_idx, head);
    uint plane = query_rows() * WORDS;
    uint behind_keys = key_rows() * WORDS;
    vec2 of_row = FACTORS(q, 2u * plane, row);
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    precise float m = uintBitsToFloat(0xff800000u);
    precise float l = 0.0;
    precise float sums[CHUNK];
    [[unroll]] for (uint d = 0u; d < CHUNK; ++d) sums[d] = 0.0;
    for (uint start = 0u; start < ROWS;) {
        find_segment(start);
        bool inside = own >= start && own < segment_end;
        uint first_block = first_seen - (first_seen - min(origin, first_seen)) % COLS;
        for (uint key0 = first_block; key0 < end_seen; key0 += COLS) {
            MULTIPLY_ROWS(q, first_query + row0, plane, k, first_key + key0, 0u)
            uint low = inside ? max(range.y, key0) : 0u;
            uint high = inside ? min(range.z, key0 + COLS) : 0u;
            bool sees_any = low < high;
            precise float s[COLS];
            precise float top = uintBitsToFloat(0xff800000u);
            EACH_FOUR_SUMS(
                EACH(i, 4u,
                    uint column = key0 + 4u * c + i;
                    vec2 of_key = FACTORS(k, behind_keys, first_key + min(column, push.keys - 1u));
                    precise float t;
                    precise float x = score(hlx_result_of_sum(float_of_sum(four[i]), of_row, of_key), t);
                    bool sees = column >= low && column < high;
                    s[4u * c + i] = sees ? x : uintBitsToFloat(0xff800000u);
                    top = hlx_max(top, s[4u * c + i]);
                )
            )
            precise float now = sees_any ? hlx_max(m, hlx_pos0(top)) : m;
            precise float correction = sees_any ? exp_below(hlx_sub(m, now)) : 1.0;
            m = now;
            precise float halves[COLS];
            EACH(quad, COLS / 4u,
                uvec4 words = uvec4(0u);
                if (DROPPED) words = draw4(key, head, range.w, (key0 - origin) / 4u + quad);
                EACH(i, 4u,
                    uint j = 4u * quad + i;
                    uint column = key0 + j;
                    bool sees = column >= low && column < high;
                    precise float p = sees ? exp_below(hlx_sub(s[j], now)) : 0.0;
                    halves[j] = p;
                    if (DROPPED) p = is_kept(words[i]) ? hlx_mul(p, push.factor) : 0.0;
                    p = folded(p, FACTORS(v, behind_keys, first_key + min(column, push.keys - 1u)));
                    s[j] = sees ? p : 0.0;
                )
            )
            [[unroll]] for (uint n = COLS / 2u; n > 0u; n /= 2u)
                EACH(j, n, halves[j] = hlx_add(halves[j], halves[j + n]);)
            l = hlx_fma(l, correction, halves[0]);
            vec2 factors = quantise(s, true);
            [[unroll]] for (uint group = 0u; group < CHUNK / COLS; ++group)
                if (CHUNK * chunk + COLS * group < D) {
                    MULTIPLY_DIGITS(ROWS, v, first_key + key0, 0u, CHUNK / COLS * chunk + group)
                    EACH_FOUR_SUMS(
                        EACH(i, 4u,
                            uint d = COLS * group + 4u * c + i;
                            sums[d] = hlx_fma(sums[d], correction, product_of(four[i], factors));
                        )
                    )
                }
        }
        start = segment_end;
    }

    if (!exists) return;
    bool sees = range.y < range.z;
    uint at = ((sample_idx * push.queries + query) * push.heads + head) * D + CHUNK * chunk;
    [[unroll]] for (uint d = 0u; d < CHUNK; ++d)
        if (CHUNK * chunk + d < D) o[at + d] = sums[d];
    // A loop with a division over the sums themselves is too long to be unrolled: they would lie in memory.
    [[dont_unroll]] for (uint d = 0u; d < CHUNK && CHUNK * chunk + d < D; ++d)
        o[at + d] = sees ? hlx_pos0(hlx_div(o[at + d], l)) : 0.0;
    if (chunk > 0u) return;
    stats[2u * row] = sees ? m : 0.0;
    stats[2u * row + 1u] = sees ? hlx_div(1.0, l) : 0.0;
}
