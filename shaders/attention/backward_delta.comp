// Causal attention backward, delta[i] = sum_d do[i, d] o[i, d], a chain over d: 32 rows of
// [B, T, H, D] a workgroup, in memory order. delta: [B, H, T].
#include "../include/arith.glsl"

layout(local_size_x = 128) in;

layout(constant_id = 0) const uint D = 64;

layout(set = 0, binding = 0) readonly buffer O { float o[]; };
layout(set = 0, binding = 1) readonly buffer DO { float d_o[]; };
layout(set = 0, binding = 2) writeonly buffer Delta { float delta[]; };

layout(push_constant) uniform Push {
    uint rows;  // B * T * H
    uint heads_a_sequence, time;
} push;

const uint ROWS = 32u;
// Columns that pass through shared memory at a time; the padding spreads the banks.
const uint DEPTH = 32u;
shared float o_tile[ROWS * (DEPTH + 1u)];
shared float d_o_tile[ROWS * (DEPTH + 1u)];

void main() {
    uint row0 = hlx_group() * ROWS;
    if (row0 >= push.rows) return;
    uint row = gl_LocalInvocationIndex;
    precise float sum = 0.0;
    for (uint d0 = 0u; d0 < D; d0 += DEPTH) {
        barrier();
        [[unroll]] for (uint i = 0u; i < ROWS * DEPTH / 128u; ++i) {
            uint at = gl_LocalInvocationIndex + 128u * i;
            uint r = at / DEPTH;
            uint d = d0 + at % DEPTH;
            if (row0 + r < push.rows && d < D) {
                o_tile[r * (DEPTH + 1u) + at % DEPTH] = o[(row0 + r) * D + d];
                d_o_tile[r * (DEPTH + 1u) + at % DEPTH] = d_o[(row0 + r) * D + d];
            }
        }
        barrier();
        if (row < ROWS && row0 + row < push.rows)
            for (uint d = 0u; d < min(DEPTH, D - d0); ++d)
                sum = hlx_fma(d_o_tile[row * (DEPTH + 1u) + d], o_tile[row * (DEPTH + 1u) + d], sum);
    }
    if (row < ROWS && row0 + row < push.rows) {
        uint position = (row0 + row) / push.heads_a_sequence;
        uint head = position / push.time * push.heads_a_sequence
                  + (row0 + row) % push.heads_a_sequence;
        delta[head * push.time + position % push.time] = hlx_pos0(sum);
    }
}
