// Attention over ranges in the integer arithmetic, dK and dV (quantised.rs has the specification). do has two digits, the queries have
// two and one there; stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T]; dk, dv: [B, S, H / G, D].
// Of dK and dV.
#define SUMS 2u
#include "integer.glsl"

layout(set = 0, binding = 5) readonly restrict buffer DO { uint d_o[]; };
layout(set = 0, binding = 6) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 7) readonly restrict buffer Delta { float delta[]; };
layout(set = 0, binding = 8) readonly restrict buffer KeyRanges { uvec4 key_ranges[]; };
layout(set = 0, binding = 9) readonly restrict buffer QNarrow { uint q_narrow[]; };
// The gradients of all operands, of which dk and dv lie at the places of k and v.
layout(set = 0, binding = 10) writeonly restrict buffer DKV { float dkv[]; };

// Queries outside of the head's are not seen; one of its own takes their place.
#define ROW_OF(j) (first_query + uint(clamp(query0 + int(j), 0, int(push.queries) - 1)))

void main() {
    uint key_heads = push.heads / push.group;
    // The first tiles of all heads, which most queries see if attention is causal, go first.
    uint tiles = (push.keys + ROWS - 1u) / ROWS;
    if (!find_place(tiles, key_heads)) return;
    uint own_key = tile * ROWS + gl_LocalInvocationIndex;
    if (own_key >= push.keys) return;
    uvec4 range = key_ranges[sample_idx * push.keys + own_key];
    uint row = keys_of(sample_idx, own_head * push.group) + own_key;
    uint first_position = ranges[sample_idx * push.queries].w;
    uint plane = query_rows() * WORDS;
    vec2 of_key = FACTORS(k, key_rows() * WORDS, row);
    vec2 of_value = FACTORS(v, key_rows() * WORDS, row);
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    clear_sums();
    int low = int(range.y);
    int high = int(range.z);
    int first_block = low - int((first_position + range.y - range.x) % COLS);
    [[dont_unroll]] for (uint head = own_head * push.group; head < (own_head + 1u) * push.group; ++head) {
        uint first_query = stats_base(sample_idx, head);
        [[dont_unroll]] for (int query0 = first_block; query0 < high; query0 += int(COLS)) {
            precise float of_values[COLS];
            precise float of_keys[COLS];
            [[dont_unroll]] for (int j = 0; j < int(COLS); ++j) {
                int column = query0 + j;
                of_values[j] = 0.0;
                of_keys[j] = 0.0;
                if (column < low || column >= high) continue;
                uint query = first_query + uint(column);
                int sum;
                SUM_ROWS(sum, q, query, plane, k, row)
                vec2 of_query = FACTORS(q, 2u * plane, query);
                precise float t;
                precise float s = score(hlx_result_of_sum(float_of_sum(sum), of_query, of_key), t);
                precise float p = hlx_mul(exp_below(hlx_sub(s, stats[2u * query])), stats[2u * query + 1u]);
                precise float slanted = CAPPED ? hlx_mul(p, hlx_fma(-t, t, 1.0)) : p;
                SUM_ROWS(sum, d_o, query, plane, v, row)
                vec2 of_upstream = FACTORS(d_o, 2u * plane, query);
                precise float dp = hlx_result_of_sum(float_of_sum(sum), of_upstream, of_value);
                if (DROPPED) {
                    uint place = own_key - range.x;
                    uint position = first_position + uint(column);
                    bool kept = is_kept(draw4(key, head, position, place / 4u)[place % 4u]);
                    p = kept ? hlx_mul(p, push.factor) : 0.0;
                    dp = kept ? hlx_mul(dp, push.factor) : 0.0;
                }
                precise float ds = hlx_mul(slanted, hlx_sub(dp, delta[query]));
                of_values[j] = folded(p, of_upstream);
                of_keys[j] = folded(ds, FACTORS(q_narrow, plane, query));
            }
            int integers[COLS];
            vec2 factors = quantise(of_values, false, integers);
            EACH_PRODUCT(integers, factors, ADD_NARROW, d_o, plane, ROW_OF, chunk, SUM(1u, d) = hlx_add(SUM(1u, d), product);)
            factors = quantise(of_keys, true, integers);
            EACH_PRODUCT(integers, factors, ADD_WIDE, q_narrow, 0u, ROW_OF, chunk, SUM(0u, d) = hlx_add(SUM(0u, d), product);)
        }
    }

    uint at_k = push.k_first + sample_idx * push.k_batch + own_head * push.k_head + own_key * push.k_position;
    uint at_v = push.v_first + sample_idx * push.v_batch + own_head * push.v_head + own_key * push.v_position;
    [[dont_unroll]] for (uint d = 0u; d < CHUNK && CHUNK * chunk + d < D; ++d) {
        dkv[at_k + CHUNK * chunk + d] = hlx_mul(hlx_pos0(SUM(0u, d)), push.scale);
        dkv[at_v + CHUNK * chunk + d] = hlx_pos0(SUM(1u, d));
    }
}
