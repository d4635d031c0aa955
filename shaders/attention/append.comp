// New tokens of sequences on their way into attention: queries and keys are normed and turned where they
// are to be (append.glsl), keys and values are written behind those that a cache holds.
//
// Token t of sample b has the place p = first[b] + t; where p >= lengths[b] it is padding, and nothing is
// written into the cache. q_out: [B, T, H, D]; caches: [B, S, G, D],
// or where they are PAGED [pages, 32, G, D].
#include "append.glsl"

layout(set = 0, binding = 8) writeonly buffer QOut { float q_out[]; };
layout(set = 0, binding = 9) buffer KCache { float k_cache[]; };
layout(set = 0, binding = 10) buffer VCache { float v_cache[]; };

void store(uint kind, uint at, float y) {
    if (kind == QUERY) q_out[at] = y;
    if (kind == KEY) k_cache[at] = y;
    if (kind == VALUE) v_cache[at] = y;
}

#define STORE(d, y) store(own.kind, to + (d), y)

void main() {
    Line own = own_line();
    precise float rstd = rstd_of(own);
    if (is_past_the_end() || is_padding(own)) return;
    uint first = own.sample_idx * (own.kind == QUERY ? push.time : push.capacity);
    uint position = first + (own.kind == QUERY ? own.time : own.place);
    if (PAGED && own.kind != QUERY) position = own.place + page_shift(own.sample_idx, own.place);
    uint to = (position * (own.kind == QUERY ? push.heads : push.key_heads) + own.head) * push.width;
    EACH_COLUMN(own, rstd, STORE)
}
