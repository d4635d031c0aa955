// y[t, c] = chain over j = 0, 1, .. of acc + weights[t, j] x[slots[t, j], c] from +0, the product rounded
// first, or without WEIGHTED of acc + x[slots[t, j], c]; then -0 becomes +0.
//
// x [rows, C], slots and weights [T, choices], y [T, C].
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const bool WEIGHTED = false;

layout(push_constant) uniform Push {
    uint tokens, choices, width, rows;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Slots { uint slots[]; };
layout(set = 0, binding = 2) readonly restrict buffer Weights { float weights[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Y { float y[]; };

void main() {
    uint element = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint token = element / push.width;
    if (token >= push.tokens) return;
    uint column = element - token * push.width;
    precise float acc = 0.0;
    for (uint j = 0u; j < push.choices; ++j) {
        uint choice = token * push.choices + j;
        uint slot = slots[choice];
        if (slot >= push.rows) continue;
        precise float term = x[slot * push.width + column];
        if (WEIGHTED) term = hlx_mul(weights[choice], term);
        acc = hlx_add(acc, term);
    }
    y[element] = hlx_pos0(acc);
}
