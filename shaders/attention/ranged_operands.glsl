// Attention over ranges: the sizes, where operands lie, and a score.
// q: [B, T, H, D], k and v: [B, S, H / G, D], by strides.
layout(constant_id = 0) const uint D = 64;
// D, the strides and the first elements are multiples of four: whole vectors are loaded and stored.
layout(constant_id = 1) const bool VECTOR = false;
// Scores become cap tanh(s / cap).
layout(constant_id = 2) const bool CAPPED = false;
// Weights are dropped.
layout(constant_id = 3) const bool DROPPED = false;

layout(push_constant) uniform Push {
    uint batch, queries, keys, heads;
    uint group;  // query heads of a key head
    // The first element, and the strides of samples, positions and heads.
    uint q_first, q_batch, q_position, q_head;
    uint k_first, k_batch, k_position, k_head;
    uint v_first, v_batch, v_position, v_head;
    float scale, cap, inverse_cap;
    uint seed_low, seed_high, purpose;
    float p;
    float factor;  // 1 / (1 - p)
    uint pool_pages;  // of keys and values that lie in pages
} push;

#define PAGED_KEYS push.keys
#include "pages.glsl"

uint q_base(uint sample_idx, uint head) {
    return push.q_first + sample_idx * push.q_batch + head * push.q_head;
}
uint k_base(uint sample_idx, uint head) {
    return push.k_first + sample_idx * push.k_batch + head / push.group * push.k_head;
}
uint v_base(uint sample_idx, uint head) {
    return push.v_first + sample_idx * push.v_batch + head / push.group * push.v_head;
}
// Element [sample, 0, head, 0] of o and d_o, [B, T, H, D]; a step of t is O_STRIDE.
#define O_STRIDE (push.heads * D)
uint o_base(uint sample_idx, uint head) { return sample_idx * push.queries * O_STRIDE + head * D; }
// [sample, head, t = 0] of [B, H, T].
uint stats_base(uint sample_idx, uint head) {
    return (sample_idx * push.heads + head) * push.queries;
}

#include "score.glsl"
