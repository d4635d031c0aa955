// New tokens of sequences on their way into attention over quantised operands: as append.comp, but what is written are the integers of
// the rows (prepare_heads.comp): with two digits for queries, with one for keys and values.
// q_out: digits [2, B, H, T, words] and exponents [B, H, T]; caches: digits [B, G, S, words] and exponents [B, G, S],
// or where they are PAGED a page in place of a sample, of 32 positions.
#include "append.glsl"
#include "../include/integer.glsl"

layout(set = 0, binding = 8) writeonly buffer QOut { uint q_out[]; };
layout(set = 0, binding = 9) buffer KCache { uint k_cache[]; };
layout(set = 0, binding = 10) buffer VCache { uint v_cache[]; };

// Columns of the widest head.
const uint WIDEST = 256u;
shared float columns[HLX_ROWS][WIDEST];
shared uint tops[HLX_ROWS][32];

#define STORE(d, y) columns[line][d] = y

void store(uint kind, uint at, uint word) {
    if (kind == QUERY) q_out[at] = word;
    if (kind == KEY) k_cache[at] = word;
    if (kind == VALUE) v_cache[at] = word;
}

void main() {
    Line own = own_line();
    precise float rstd = rstd_of(own);
    uint line = gl_LocalInvocationID.x / 32u;
    uint lane = hlx_row_thread();
    EACH_COLUMN(own, rstd, STORE)
    // Words of a row, and zeros behind its columns.
    uint words = (push.width + 31u) / 32u * 8u;
    for (uint d = push.width + lane; d < 4u * words; d += 32u) columns[line][d] = 0.0;
    barrier();
    uint top = 0u;
    for (uint d = lane; d < push.width; d += 32u) top = max(top, hlx_magnitude(columns[line][d]));
    tops[line][lane] = top;
    barrier();
    // The largest of integers: no order shows.
    for (uint i = 0u; i < 32u; ++i) top = max(top, tops[line][i]);
    if (is_past_the_end() || is_padding(own)) return;

    bool wide = own.kind == QUERY;
    uint heads = wide ? push.heads : push.key_heads;
    uint positions = wide ? push.time : push.capacity;
    uint sequences = push.rows / push.time;
    uint sequence = own.sample_idx;
    uint place = wide ? own.time : own.place;
    if (PAGED && !wide) {
        sequences = push.pool_pages;
        sequence = page_of(own.sample_idx, place);
        positions = PAGE;
        place %= PAGE;
    }
    uint plane = sequences * heads * positions * words;
    uint row = (sequence * heads + own.head) * positions + place;
    int exponent = hlx_row_exponent(top, wide);
    vec2 scale = hlx_scale(exponent);
    if (lane == 0u) store(own.kind, (wide ? 2u : 1u) * plane + row, uint(exponent));
    for (uint word = lane; word < words; word += 32u) {
        vec4 y = vec4(columns[line][4u * word], columns[line][4u * word + 1u], columns[line][4u * word + 2u],
                      columns[line][4u * word + 3u]);
        ivec4 integers = hlx_quantised4(y, exponent, scale);
        uint to = row * words + word;
        if (wide) store(own.kind, to, hlx_upper_digits(integers));
        store(own.kind, (wide ? plane : 0u) + to, hlx_lower_digits(integers));
    }
}
