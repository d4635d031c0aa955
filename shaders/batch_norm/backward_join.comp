// Batch norm backward, a channel's sums from those of its pieces, shard by shard:
//   dbias = sum of dy, dweight = sum of dy n, means = (dbias / terms, dweight / terms),
// the first two on top of the stored values with CONTINUE.
// partials: [shards, channels, pieces] of (sum of dy, sum of dy n); means: [shards, channels] of both;
// dweight, dbias: [shards, channels]. The sums have the order of include/reduce.glsl.
#include "terms.glsl"

layout(constant_id = 5) const uint CONTINUE = 0u;

layout(set = 0, binding = 1) readonly restrict buffer Partials { vec2 partials[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Means { vec2 means[]; };
layout(set = 0, binding = 3) restrict buffer DWeight { float dweight[]; };
layout(set = 0, binding = 4) restrict buffer DBias { float dbias[]; };

void main() {
    uint rows = push.shards * push.channels;
    uint row = hlx_row(rows);
    HLX_START(plain, 0.0)
    HLX_START(scaled, 0.0)
    for (uint first = hlx_row_thread(); first < push.pieces; first += 128u)
        [[unroll]] for (uint j = 0u; j < HLX_LANES_HELD; ++j) {
            uint p = first + j * HLX_THREADS;
            if (p < push.pieces) {
                precise vec2 partial = partials[row * push.pieces + p];
                plain[j] = hlx_add(plain[j], partial.x);
                scaled[j] = hlx_add(scaled[j], partial.y);
            }
        }
    precise float a = hlx_reduce(plain, 0u, false);
    precise float b = hlx_reduce(scaled, 1u, false);
    if (!hlx_is_row(rows) || hlx_row_thread() != 0u) return;
    precise float n = hlx_float_of_uint(max(terms_of(row / push.channels), 1u));
    means[row] = vec2(hlx_div(a, n), hlx_div(b, n));
    if (CONTINUE != 0u) {
        a = hlx_add(dbias[row], a);
        b = hlx_add(dweight[row], b);
    }
    dbias[row] = a;
    dweight[row] = b;
}
