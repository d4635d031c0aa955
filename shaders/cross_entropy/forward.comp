// Cross-entropy forward, one loss a row. With t = target_r, m = max_v x[r, v],
// z = log(sum_v exp(x[r, v] - m)) and the smoothing e:
//   loss_r = z - (x[r, t] - m)                                                      for e = 0,
//   loss_r = fma(1 - e, z - (x[r, t] - m), (e / V) * sum_v (z - (x[r, v] - m)))     otherwise;
// 0 where the row is ignored, NaN where its target is no class.
// logits x: [rows, V]; targets: [rows]; loss_rows: [rows]; stats: [rows, 2] = (m, z).
// The sums have the order of include/reduce.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

layout(set = 0, binding = 0) readonly buffer Logits { float x[]; };
layout(set = 0, binding = 1) readonly buffer Targets { uint targets[]; };
layout(set = 0, binding = 2) writeonly buffer LossRows { float loss_rows[]; };
layout(set = 0, binding = 3) writeonly buffer Stats { float stats[]; };
layout(push_constant) uniform Push {
    uint rows;
    uint vocabulary;
    float keep;    // 1 - e
    float spread;  // e / V
} push;

const uint IGNORE_INDEX = 0xffffffffu;

void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.vocabulary : 0u;
    uint base = row * push.vocabulary;

    precise vec4 lanes = vec4(HLX_LOWEST);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_max(lanes[j], x[base + col]);
        }
    precise float top = hlx_row_max(lanes);

    lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_add(lanes[j], hlx_exp(hlx_sub(x[base + col], top)));
        }
    precise float log_sum = hlx_log(hlx_row_sum(lanes));

    precise float all = 0.0;
    if (push.spread != 0.0) {
        lanes = vec4(0.0);
        for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint col = first + 32u * j;
                if (col < end)
                    lanes[j] = hlx_add(lanes[j], hlx_sub(log_sum, hlx_sub(x[base + col], top)));
            }
        all = hlx_row_sum(lanes);
    }

    if (row >= push.rows || hlx_row_thread() != 0u) return;
    uint target = targets[row];
    precise float loss = uintBitsToFloat(0x7fc00000u);
    if (target == IGNORE_INDEX) {
        loss = 0.0;
    } else if (target < push.vocabulary) {
        loss = hlx_sub(log_sum, hlx_sub(x[base + target], top));
        if (push.spread != 0.0) loss = hlx_fma(push.keep, loss, hlx_mul(push.spread, all));
    }
    loss_rows[row] = loss;
    stats[2u * row] = top;
    stats[2u * row + 1u] = log_sum;
}
