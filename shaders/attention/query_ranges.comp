// The range of keys that each query sees (ranges.glsl), [B, T, 4].
#include "ranges.glsl"

void main() {
    uint at = hlx_group() * 64u + gl_LocalInvocationID.x;
    if (at >= push.batch * push.queries) return;
    uint sample_idx = at / push.queries;
    uint len = length_of(sample_idx);
    uint p = first_of(sample_idx) + at % push.queries;

    uvec2 document = uvec2(0u);
    if (push.has_documents == 0u || p < push.keys) document = document_of(sample_idx, p);
    uint begin = max(document.x, less(p + 1u, push.window));
    uint end = min(document.y, len);
    if (push.causal != 0u) end = min(end, p + 1u);
    else end = min(end, p + push.window);
    bool padding = push.causal != 0u && push.has_lengths != 0u && p >= len;
    if (padding || begin >= end) {
        begin = 0u;
        end = 0u;
    }
    ranges[at] = uvec4(document.x, begin, end, p);
}
