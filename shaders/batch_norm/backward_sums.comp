// Batch norm backward, sums of a piece of a channel's terms, with n = (x - mean) * rstd:
//   partials[shard, channel, piece] = (sum of dy, sum of dy n), (0, 0) for a piece without terms.
// x, dy: [shards * samples, channels, length]; stats: [shards, channels] of (mean, rstd).
// The sums have the order of include/reduce.glsl.
#include "terms.glsl"

layout(set = 0, binding = 1) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 2) readonly restrict buffer DY { float dy[]; };
layout(set = 0, binding = 3) readonly restrict buffer Stats { vec2 stats[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Partials { vec2 partials[]; };

void main() {
    uint rows = push.shards * push.channels * push.pieces;
    uint row = hlx_row(rows);
    Piece piece = piece_of(row);
    precise vec2 mean_rstd = stats[piece.channel];
    HLX_START(plain, 0.0)
    HLX_START(scaled, 0.0)
    for (uint first = 0u; first < piece.count; first += COLS) {
        precise float v[HLX_HELD];
        precise float g[HLX_HELD];
        HLX_EACH(i) if (first + hlx_col(i) < piece.count) {
            uint at = place_of(piece, first + hlx_col(i));
            v[i] = x[at];
            g[i] = dy[at];
        }
        HLX_EACH(i) if (first + hlx_col(i) < piece.count) {
            precise float normal = hlx_mul(hlx_sub(v[i], mean_rstd.x), mean_rstd.y);
            plain[HLX_LANE(i)] = hlx_add(plain[HLX_LANE(i)], g[i]);
            scaled[HLX_LANE(i)] = hlx_add(scaled[HLX_LANE(i)], hlx_mul(g[i], normal));
        }
    }
    precise float a = hlx_reduce(plain, 0u, false);
    precise float b = hlx_reduce(scaled, 1u, false);
    if (hlx_is_row(rows) && hlx_row_thread() == 0u) partials[row] = vec2(a, b);
}
