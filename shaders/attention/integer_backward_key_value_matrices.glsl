// Attention over ranges by matrices of integers, dK and dV (ranged/integer.rs has the law). do is wide, the queries are
// there wide and narrow; stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T]; dk, dv: [B, S, H / G, D].
#include "integer_matrices.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DO { uint d_o[]; };
layout(set = 0, binding = 5) readonly restrict buffer DOUnits { uvec4 d_o_units[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
layout(set = 0, binding = 8) readonly restrict buffer KeyRanges { uvec4 key_ranges[]; };
layout(set = 0, binding = 9) readonly restrict buffer QNarrow { uint q_narrow[]; };
layout(set = 0, binding = 9) readonly restrict buffer QNarrowUnits { uvec4 q_narrow_units[]; };
layout(set = 0, binding = 10) writeonly restrict buffer DK { float dk[]; };
layout(set = 0, binding = 11) writeonly restrict buffer DV { float dv[]; };

// Columns of a workgroup's results.
const uint CHUNK = 64u;

void main() {
    uint own = gl_LocalInvocationIndex;
    uint key_heads = push.heads / push.group;
    uint all_heads = push.batch * key_heads;
    uint chunks = (D + CHUNK - 1u) / CHUNK;
    uint tiles = (push.keys + ROWS - 1u) / ROWS;
    // The first tiles of all heads, which most queries see if attention is causal, go first.
    uint tile = hlx_group() / (all_heads * chunks);
    if (tile >= tiles) return;
    uint chunk = hlx_group() / all_heads % chunks;
    uint sample_idx = hlx_group() % all_heads / key_heads;
    uint key_head = hlx_group() % key_heads;
    uint own_key = tile * ROWS + own;
    bool exists = own_key < push.keys;
    uvec4 range = exists ? key_ranges[sample_idx * push.keys + own_key] : uvec4(0u);
    tile_ranges[own] = range;
    subgroupBarrier();
    uint first_key = keys_of(sample_idx, key_head * push.group);
    uint row = first_key + min(own_key, push.keys - 1u);
    uint tile_key = first_key + tile * ROWS;
    uint first_position = ranges[sample_idx * push.queries].w;
    uint plane = query_rows() * WORDS;
    vec2 of_key = FACTORS(k, key_rows() * WORDS, row);
    vec2 of_value = FACTORS(v, key_rows() * WORDS, row);
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    precise float k_sums[CHUNK];
    precise float v_sums[CHUNK];
    EACH(d, CHUNK,
        k_sums[d] = 0.0;
        v_sums[d] = 0.0;
    )
    for (uint head = key_head * push.group; head < (key_head + 1u) * push.group; ++head) {
        uint first_query = queries_of(sample_idx, head);
        for (uint start = 0u; start < ROWS;) {
            find_segment(start);
            bool inside = own >= start && own < segment_end;
            // Queries block .. block + 31, of which those before query 0 are none.
            int first_block = int(first_seen) - int((first_position + first_seen - origin) % COLS);
            for (int block = first_block; block < int(end_seen); block += int(COLS)) {
                uint query0 = uint(max(block, 0));
                uint low = inside ? max(range.y, query0) : 0u;
                uint high = inside ? min(range.z, uint(block + int(COLS))) : 0u;
                precise float of_values[COLS];
                precise float of_keys[COLS];
                MULTIPLY_ROWS(k, tile_key, 0u, q, first_query + query0, plane)
                EACH_FOUR_SUMS(
                    EACH(i, 4u,
                        uint query = first_query + min(query0 + 4u * c + i, push.queries - 1u);
                        precise float t;
                        precise float s = score(
                            hlx_result_of_sum(float_of_sum(four[i]), FACTORS(q, 2u * plane, query), of_key), t);
                        precise float p = hlx_mul(exp_below(hlx_sub(s, stats[2u * query])), stats[2u * query + 1u]);
                        of_values[4u * c + i] = p;
                        of_keys[4u * c + i] = CAPPED ? hlx_mul(p, hlx_fma(-t, t, 1.0)) : p;
                    )
                )
                MULTIPLY_ROWS(v, tile_key, 0u, d_o, first_query + query0, plane)
                EACH_FOUR_SUMS(
                    EACH(i, 4u,
                        uint column = query0 + 4u * c + i;
                        uint query = first_query + min(column, push.queries - 1u);
                        vec2 of_upstream = FACTORS(d_o, 2u * plane, query);
                        precise float dp = hlx_result_of_sum(float_of_sum(four[i]), of_upstream, of_value);
                        precise float p = of_values[4u * c + i];
                        if (DROPPED) {
                            uint place = own_key - range.x;
                            bool kept = is_kept(draw4(key, head, first_position + column, place / 4u)[place % 4u]);
                            p = kept ? hlx_mul(p, push.factor) : 0.0;
                            dp = kept ? hlx_mul(dp, push.factor) : 0.0;
                        }
                        precise float ds = hlx_mul(of_keys[4u * c + i], hlx_sub(dp, delta[query]));
                        bool sees = column >= low && column < high;
                        of_values[4u * c + i] = sees ? folded(p, of_upstream) : 0.0;
                        of_keys[4u * c + i] = sees ? folded(ds, FACTORS(q_narrow, plane, query)) : 0.0;
                    )
                )
                vec2 factors = quantise(of_values, false);
                [[unroll]] for (uint group = 0u; group < CHUNK / COLS; ++group)
                    if (CHUNK * chunk + COLS * group < D) {
                        MULTIPLY_DIGITS(0u, d_o, first_query + query0, plane, CHUNK / COLS * chunk + group)
                        EACH_FOUR_SUMS(
                            EACH(i, 4u,
                                uint d = COLS * group + 4u * c + i;
                                v_sums[d] = hlx_add(v_sums[d], product_of(four[i], factors));
                            )
                        )
                    }
                factors = quantise(of_keys, true);
                [[unroll]] for (uint group = 0u; group < CHUNK / COLS; ++group)
                    if (CHUNK * chunk + COLS * group < D) {
                        MULTIPLY_DIGITS(ROWS, q_narrow, first_query + query0, 0u, CHUNK / COLS * chunk + group)
                        EACH_FOUR_SUMS(
                            EACH(i, 4u,
                                uint d = COLS * group + 4u * c + i;
                                k_sums[d] = hlx_add(k_sums[d], product_of(four[i], factors));
                            )
                        )
                    }
            }
            start = segment_end;
        }
    }

    if (!exists) return;
    uint at = ((sample_idx * push.keys + own_key) * key_heads + key_head) * D + CHUNK * chunk;
    [[unroll]] for (uint d = 0u; d < CHUNK; ++d)
        if (CHUNK * chunk + d < D) {
            dk[at + d] = hlx_mul(hlx_pos0(k_sums[d]), push.scale);
            dv[at + d] = hlx_pos0(v_sums[d]);
        }
}
