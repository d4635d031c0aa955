// The range of queries that see each key (ranges.glsl), [B, S, 4].
#include "ranges.glsl"

void main() {
    uint at = hlx_group() * 64u + gl_LocalInvocationID.x;
    if (at >= push.batch * push.keys) return;
    uint sample_idx = at / push.keys;
    uint key = at % push.keys;
    uint len = length_of(sample_idx);
    uint first = first_of(sample_idx);

    // As positions.
    uvec2 document = document_of(sample_idx, key);
    uint begin = 0u;
    uint end = key + push.window;
    if (push.has_documents != 0u) {
        begin = document.x;
        end = min(end, document.y);
    }
    if (push.causal != 0u) {
        begin = max(begin, key);
        if (push.has_lengths != 0u) end = min(end, len);
    } else {
        begin = max(begin, less(key + 1u, push.window));
    }
    // As queries.
    begin = less(begin, first);
    end = min(less(end, first), push.queries);
    if (key >= len || begin >= end) {
        begin = 0u;
        end = 0u;
    }
    ranges[at] = uvec4(document.x, begin, end, key);
}
