// Batch norm, statistics of a piece of a channel's terms: S = sum of x, and Q = sum of (x - S / n)^2
// over its n terms.
// x: [shards * samples, channels, length]; partials: [shards, channels, pieces] of (S, Q), (0, 0) for a
// piece without terms. The sums have the order of include/reduce.glsl.
#include "terms.glsl"

layout(set = 0, binding = 1) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Partials { vec2 partials[]; };

// Loads a thread's terms of the COLS from `first` on.
#define LOAD(first) \
    HLX_EACH(i) if (first + hlx_col(i) < piece.count) v[i] = x[place_of(piece, first + hlx_col(i))];

void main() {
    uint rows = push.shards * push.channels * push.pieces;
    uint row = hlx_row(rows);
    Piece piece = piece_of(row);
    precise float v[HLX_HELD];
    HLX_START(sums, 0.0)
    for (uint first = 0u; first < piece.count; first += COLS) {
        LOAD(first)
        HLX_EACH(i) if (first + hlx_col(i) < piece.count)
            sums[HLX_LANE(i)] = hlx_add(sums[HLX_LANE(i)], v[i]);
    }
    precise float total = hlx_reduce(sums, 0u, false);
    precise float mean = hlx_div(total, float(max(piece.count, 1u)));

    HLX_START(squares, 0.0)
    for (uint first = 0u; first < piece.count; first += COLS) {
        // Where a thread holds all its terms they are loaded once.
        if (piece.count > COLS) {
            LOAD(first)
        }
        HLX_EACH(i) if (first + hlx_col(i) < piece.count) {
            precise float d = hlx_sub(v[i], mean);
            squares[HLX_LANE(i)] = hlx_add(squares[HLX_LANE(i)], hlx_mul(d, d));
        }
    }
    precise float spread = hlx_reduce(squares, 1u, false);
    if (hlx_is_row(rows) && hlx_row_thread() == 0u) partials[row] = vec2(total, spread);
}
