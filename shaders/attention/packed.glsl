// Packed heads: sizes, where queries, keys and values lie, and the draws of dropped weights.
layout(constant_id = 0) const uint D = 64;

layout(push_constant) uniform Push {
    uint heads;  // of all sequences together: B * H
    uint heads_a_sequence, time;
    float scale;
#ifdef STORED_DS
    uint first_head;  // of the heads whose ds is stored at a time: push.heads of them
#endif
#ifdef DROPPED
    uint seed_low, seed_high, purpose;
    float p;
    float factor;  // 1 / (1 - p)
#endif
} push;

#ifdef DROPPED
#include "draws.glsl"
// The key of the draws of a head's sequence; `counter` holds the step and the first sample's number.
#define HEAD_DRAW_KEY(counter, head) \
    draw_key(counter[0], counter[1], (head) / push.heads_a_sequence)
#endif

// Element offset of [sequence, t = 0, which, head, d = 0] in qkv [B, T, 3, H, D], and of
// [sequence, 0, head, 0] in o [B, T, H, D]; a step of t is QKV_STRIDE or O_STRIDE.
#define O_STRIDE (push.heads_a_sequence * D)
#define QKV_STRIDE (3u * O_STRIDE)
uint qkv_base(uint head, uint which) {
    uint sequence = head / push.heads_a_sequence;
    return sequence * push.time * QKV_STRIDE + which * O_STRIDE
         + (head % push.heads_a_sequence) * D;
}
uint o_base(uint head) {
    return head / push.heads_a_sequence * push.time * O_STRIDE
         + (head % push.heads_a_sequence) * D;
}
