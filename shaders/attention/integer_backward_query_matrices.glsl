// Attention over ranges by matrices of integers, dQ (ranged/integer.rs has the law). do is wide; stats: [B, H, T, 2] =
// (m, 1 / l); delta: [B, H, T]; dq: [B, T, H, D].
#include "integer_matrices.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DO { uint d_o[]; };
layout(set = 0, binding = 5) readonly restrict buffer DOUnits { uvec4 d_o_units[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
layout(set = 0, binding = 8) writeonly restrict buffer DQ { float dq[]; };

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
    uint tile_query = first_query + row0;
    uint first_key = keys_of(sample_idx, head);
    uint plane = query_rows() * WORDS;
    uint behind_keys = key_rows() * WORDS;
    vec2 of_row = FACTORS(q, 2u * plane, row);
    vec2 of_upstream = FACTORS(d_o, 2u * plane, row);
    precise float m = stats[2u * row];
    precise float inverse = stats[2u * row + 1u];
    precise float offset = delta[row];
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    precise float sums[CHUNK];
    [[unroll]] for (uint d = 0u; d < CHUNK; ++d) sums[d] = 0.0;
    for (uint start = 0u; start < ROWS;) {
        find_segment(start);
        bool inside = own >= start && own < segment_end;
        uint first_block = first_seen - (first_seen - min(origin, first_seen)) % COLS;
        for (uint key0 = first_block; key0 < end_seen; key0 += COLS) {
            uint low = inside ? max(range.y, key0) : 0u;
            uint high = inside ? min(range.z, key0 + COLS) : 0u;
            precise float u[COLS];
            MULTIPLY_ROWS(q, tile_query, plane, k, first_key + key0, 0u)
            EACH_FOUR_SUMS(
                EACH(i, 4u,
                    uint key_row = first_key + min(key0 + 4u * c + i, push.keys - 1u);
                    precise float t;
                    precise float s = score(
                        hlx_result_of_sum(float_of_sum(four[i]), of_row, FACTORS(k, behind_keys, key_row)), t);
                    precise float p = hlx_mul(exp_below(hlx_sub(s, m)), inverse);
                    if (CAPPED) p = hlx_mul(p, hlx_fma(-t, t, 1.0));
                    u[4u * c + i] = p;
                )
            )
            MULTIPLY_ROWS(d_o, tile_query, plane, v, first_key + key0, 0u)
            EACH_FOUR_SUMS(
                uvec4 words = uvec4(0u);
                if (DROPPED) words = draw4(key, head, range.w, (key0 - origin) / 4u + c);
                EACH(i, 4u,
                    uint column = key0 + 4u * c + i;
                    uint key_row = first_key + min(column, push.keys - 1u);
                    precise float dp =
                        hlx_result_of_sum(float_of_sum(four[i]), of_upstream, FACTORS(v, behind_keys, key_row));
                    if (DROPPED) dp = is_kept(words[i]) ? hlx_mul(dp, push.factor) : 0.0;
                    precise float ds = hlx_mul(u[4u * c + i], hlx_sub(dp, offset));
                    bool sees = column >= low && column < high;
                    u[4u * c + i] = sees ? folded(ds, FACTORS(k, behind_keys, key_row)) : 0.0;
                )
            )
            vec2 factors = quantise(u, true);
            [[unroll]] for (uint group = 0u; group < CHUNK / COLS; ++group)
                if (CHUNK * chunk + COLS * group < D) {
                    MULTIPLY_DIGITS(ROWS, k, first_key + key0, 0u, CHUNK / COLS * chunk + group)
                    EACH_FOUR_SUMS(
                        EACH(i, 4u,
                            uint d = COLS * group + 4u * c + i;
                            sums[d] = hlx_add(sums[d], product_of(four[i], factors));
                        )
                    )
                }
        }
        start = segment_end;
    }

    if (!exists) return;
    uint at = ((sample_idx * push.queries + query) * push.heads + head) * D + CHUNK * chunk;
    [[unroll]] for (uint d = 0u; d < CHUNK; ++d)
        if (CHUNK * chunk + d < D) dq[at + d] = hlx_mul(hlx_pos0(sums[d]), push.scale);
}
