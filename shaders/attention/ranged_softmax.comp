// Attention over ranges, from stored scores to the weights of the forward's sums: a thread per query. Its keys come
// in blocks of 32 that count from its document's first, as in ranged_forward.glsl; for a block with keys that it
// sees, with m' = max(m, max_j s[j]):
//   c = exp(m - m'); l = l c, then l + p[j] in order, p[j] = exp(s[j] - m')
//   w[j] = p[j], or p[j] / (1 - p_dropped) and 0 where weights are dropped
// scores, which become w: [stored heads, S, T]; corrections c: [stored heads, S / 32, T]; sums l: [stored heads, T];
// stats: [B, H, T, 2] = (m, 1 / l), zeros where a query sees no key.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/random.glsl"
#define THREAD_ROWS 1
#define THREADS_Y 16
const uint D = 1u;
const bool VECTOR = false;
#include "register_tile.glsl"

layout(local_size_x = 128) in;
// Weights are dropped.
layout(constant_id = 3) const bool DROPPED = false;

layout(push_constant) uniform Push {
    uint queries, keys, heads;
    uint first_head;  // of the heads of all samples whose scores are stored
    uint stored_heads, seed_low, seed_high, purpose;
    float p;
    float factor;  // 1 / (1 - p)
} push;

layout(set = 0, binding = 0) readonly buffer Ranges { uvec4 ranges[]; };
layout(set = 0, binding = 1) readonly buffer Counter { uint step_and_base[]; };
layout(set = 0, binding = 2) buffer Scores { float scores[]; };
layout(set = 0, binding = 3) writeonly buffer Corrections { float corrections[]; };
layout(set = 0, binding = 4) writeonly buffer Sums { float sums[]; };
layout(set = 0, binding = 5) writeonly buffer Stats { float stats[]; };

#include "draws.glsl"

const uint BLOCK = 32u;

// A thread's scores of a block: the loop over them is short and not unrolled, and its program with it.
shared float own_scores[BLOCK * 128u];
#define OWN(j) own_scores[(j) * 128u + gl_LocalInvocationIndex]

void main() {
    uint at = hlx_group() * 128u + gl_LocalInvocationIndex;
    if (at >= push.stored_heads * push.queries) return;
    uint stored_head = at / push.queries;
    uint query = at % push.queries;
    uint all_head = push.first_head + stored_head;
    uint sample_idx = all_head / push.heads;
    uint head = all_head % push.heads;
    uvec4 range = ranges[sample_idx * push.queries + query];
    uvec2 key = DROPPED ? draw_key(step_and_base[0], step_and_base[1], sample_idx) : uvec2(0u);
    uint blocks = (push.keys + BLOCK - 1u) / BLOCK;

    precise float m = uintBitsToFloat(0xff800000u);
    precise float l = 0.0;
    for (uint block = range.y - (range.y - range.x) % BLOCK; block < range.z; block += BLOCK) {
        uint first = (stored_head * push.keys + block) * push.queries + query;
        precise float top = uintBitsToFloat(0xff800000u);
        EACH(half_idx, 2u,
            float s[BLOCK / 2u];
            EACH(j, BLOCK / 2u,
                uint term = min(BLOCK / 2u * half_idx + j, push.keys - 1u - block);
                s[j] = scores[first + term * push.queries];
            )
            EACH(j, BLOCK / 2u,
                uint term = BLOCK / 2u * half_idx + j;
                bool sees = block + term >= range.y && block + term < range.z;
                precise float score = sees ? s[j] : uintBitsToFloat(0xff800000u);
                top = hlx_max(top, score);
                OWN(term) = score;
            )
        )
        MOVE_MAXIMUM(m, top)
        l = hlx_mul(l, correction);
        corrections[(stored_head * blocks + block / BLOCK) * push.queries + query] = correction;
        [[dont_unroll]] for (uint quad = 0u; quad < BLOCK / 4u; ++quad) {
            uvec4 words = uvec4(0u);
            if (DROPPED) words = draw4(key, head, range.w, (block - range.x) / 4u + quad);
            precise vec4 p;
            EACH(c, 4u, p[c] = exp_below(hlx_sub(OWN(4u * quad + c), now));)
            EACH(c, 4u,
                uint j = 4u * quad + c;
                if (block + j >= range.y && block + j < range.z) {
                    l = hlx_add(l, p[c]);
                    if (DROPPED) p[c] = is_kept(words[c]) ? hlx_mul(p[c], push.factor) : 0.0;
                    scores[first + j * push.queries] = p[c];
                }
            )
        }
    }
    bool sees = range.y < range.z;
    sums[at] = l;
    uint stats_at = 2u * (all_head * push.queries + query);
    stats[stats_at] = sees ? m : 0.0;
    stats[stats_at + 1u] = sees ? hlx_div(1.0, l) : 0.0;
}
