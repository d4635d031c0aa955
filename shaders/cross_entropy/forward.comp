// Cross-entropy forward, one loss a row. With t = target_r, m = max_v x[r, v],
// z = log(sum_v exp(x[r, v] - m)) and the smoothing e:
//   loss_r = z - (x[r, t] - m)                                                      for e = 0,
//   loss_r = fma(1 - e, z - (x[r, t] - m), (e / V) * sum_v (z - (x[r, v] - m)))     otherwise;
// 0 where the row is ignored, NaN where its target is no class.
// logits x: [rows, V]; targets: [rows]; loss_rows: [rows]; stats: [rows, 2] = (m, z).
// The sums have the order of include/reduce.glsl; a row is read once for the largest, once for the
// sum and with smoothing once more. A GPU has HLX_AHEAD blocks of 128 columns under way at a time.
#define HLX_REDUCTIONS 3
#include "../include/held_row.glsl"

layout(constant_id = 4) const uint HLX_AHEAD = 1u;

layout(set = 0, binding = 0) readonly restrict buffer Logits { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Targets { uint targets[]; };
layout(set = 0, binding = 2) writeonly restrict buffer LossRows { float loss_rows[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Stats { vec2 stats[]; };
layout(push_constant) uniform Push {
    uint rows, vocabulary;
    float keep;    // 1 - e
    float spread;  // e / V
} push;

const uint IGNORE_INDEX = 0xffffffffu;

// What a lane becomes with x in pass 0 (largest), 1 (sum of powers), 2 (sum of losses).
float next(float lane, float x, uint pass_idx, float top, float log_sum) {
    if (pass_idx == 0u) return hlx_max(lane, x);
    if (pass_idx == 1u) return hlx_add(lane, hlx_exp(hlx_sub(x, top)));
    return hlx_add(lane, hlx_sub(log_sum, hlx_sub(x, top)));
}

float pass_over(uint base, uint pass_idx, float top, float log_sum) {
    HLX_START(lanes, pass_idx == 0u ? HLX_LOWEST : 0.0)
    uint first = hlx_row_thread();
    if (HLX_AHEAD > 1u)
        for (; first - hlx_row_thread() + 128u * HLX_AHEAD <= push.vocabulary; first += 128u * HLX_AHEAD) {
            precise float v[HLX_AHEAD * HLX_LANES_HELD];
            [[unroll]] for (uint i = 0u; i < HLX_AHEAD * HLX_LANES_HELD; ++i)
                v[i] = x[base + first + i * HLX_THREADS];
            [[unroll]] for (uint i = 0u; i < HLX_AHEAD * HLX_LANES_HELD; ++i)
                lanes[HLX_LANE(i)] = next(lanes[HLX_LANE(i)], v[i], pass_idx, top, log_sum);
        }
    for (; first < push.vocabulary; first += 128u)
        [[unroll]] for (uint j = 0u; j < HLX_LANES_HELD; ++j) {
            uint col = first + j * HLX_THREADS;
            if (col < push.vocabulary)
                lanes[j] = next(lanes[j], x[base + col], pass_idx, top, log_sum);
        }
    return hlx_reduce(lanes, pass_idx, pass_idx == 0u);
}

void main() {
    uint row = hlx_row(push.rows);
    uint base = row * push.vocabulary;
    precise float top = pass_over(base, 0u, 0.0, 0.0);
    precise float log_sum = hlx_log(pass_over(base, 1u, top, 0.0));
    precise float all = push.spread != 0.0 ? pass_over(base, 2u, top, log_sum) : 0.0;
    if (!hlx_is_row(push.rows) || hlx_row_thread() != 0u) return;

    uint target = targets[row];
    precise float loss = uintBitsToFloat(HLX_NAN);
    if (target == IGNORE_INDEX) {
        loss = 0.0;
    } else if (target < push.vocabulary) {
        loss = hlx_sub(log_sum, hlx_sub(x[base + target], top));
        if (push.spread != 0.0) loss = hlx_fma(push.keep, loss, hlx_mul(push.spread, all));
    }
    loss_rows[row] = loss;
    stats[row] = vec2(top, log_sum);
}
