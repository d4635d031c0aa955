// Batch norm, a channel's statistics from those of its pieces, shard by shard:
//   mean = (sum_p S_p) / n, M = sum_p (Q_p + n_p (S_p / n_p - mean)^2), variance = M / n,
//   rstd = 1 / sqrt(variance + eps)
// and, with TRACKED, for each shard of two or more terms in order, with m the momentum (or one over
// the number of shards so far, this one included, with CUMULATIVE):
//   running_mean = fma(m, mean, (1 - m) running_mean), running_var likewise with M / (n - 1).
// partials: [shards, channels, pieces] of (S, Q); stats: [shards, channels] of (mean, rstd);
// running_mean, running_var: [channels]; tracked: [1]. The sums have the order of include/reduce.glsl.
#include "terms.glsl"

layout(constant_id = 5) const uint TRACKED = 0u;
layout(constant_id = 6) const uint CUMULATIVE = 0u;

layout(set = 0, binding = 1) readonly restrict buffer Partials { vec2 partials[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Stats { vec2 stats[]; };
layout(set = 0, binding = 3) restrict buffer RunningMean { float running_mean[]; };
layout(set = 0, binding = 4) restrict buffer RunningVar { float running_var[]; };
layout(set = 0, binding = 5) readonly restrict buffer Tracked { uint tracked[]; };

// What a piece adds to the sum of squares around the channel's mean.
float spread_of(vec2 partial, uint count, float mean) {
    if (count == 0u) return 0.0;
    precise float n = float(count);
    precise float d = hlx_sub(hlx_div(partial.x, n), mean);
    return hlx_add(partial.y, hlx_mul(n, hlx_mul(d, d)));
}

float moved(float running, float value, float momentum) {
    return hlx_fma(momentum, value, hlx_mul(hlx_sub(1.0, momentum), running));
}

void main() {
    uint channel = hlx_row(push.channels);
    bool stores = hlx_is_row(push.channels) && hlx_row_thread() == 0u;
    uint seen = TRACKED != 0u ? tracked[0] : 0u;
    for (uint shard = 0u; shard < push.shards; ++shard) {
        uint terms = terms_of(shard);
        uint at = shard * push.channels + channel;
        HLX_START(sums, 0.0)
        for (uint first = hlx_row_thread(); first < push.pieces; first += 128u)
            [[unroll]] for (uint j = 0u; j < HLX_LANES_HELD; ++j) {
                uint p = first + j * HLX_THREADS;
                if (p < push.pieces) sums[j] = hlx_add(sums[j], partials[at * push.pieces + p].x);
            }
        precise float n = hlx_float_of_uint(max(terms, 1u));
        precise float mean = hlx_div(hlx_reduce(sums, 0u, false), n);
        HLX_START(squares, 0.0)
        for (uint first = hlx_row_thread(); first < push.pieces; first += 128u)
            [[unroll]] for (uint j = 0u; j < HLX_LANES_HELD; ++j) {
                uint p = first + j * HLX_THREADS;
                uint count = terms <= p * PIECE ? 0u : min(terms - p * PIECE, PIECE);
                if (p < push.pieces)
                    squares[j] = hlx_add(squares[j], spread_of(partials[at * push.pieces + p], count, mean));
            }
        precise float spread = hlx_reduce(squares, 1u, false);
        precise float variance = hlx_div(spread, n);
        precise float rstd = hlx_div(1.0, hlx_sqrt(hlx_add(variance, push.eps)));
        if (stores) stats[at] = vec2(mean, rstd);
        if (TRACKED == 0u || terms < 2u) continue;
        ++seen;
        precise float m = CUMULATIVE != 0u ? hlx_div(1.0, hlx_float_of_uint(seen)) : push.momentum;
        precise float unbiased = hlx_div(spread, hlx_float_of_uint(terms - 1u));
        if (stores) {
            running_mean[channel] = moved(running_mean[channel], mean, m);
            running_var[channel] = moved(running_var[channel], unbiased, m);
        }
    }
}
