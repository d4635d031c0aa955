// New tokens of sequences on their way into attention: what is read, and what becomes of a head.
//   n = (x rstd) weight, rstd = 1 / sqrt((sum_d x^2) / D + eps), where NORMED, else x;
//   y = n turned by the angle of its position (rope.comp); the pairs may be none; values stay as they are.
// q: [B T, H, D], k, v: [B T, G, D], by row strides. 32 threads have a head of a row; the sum of squares has the order of
// include/reduce.glsl.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

// Heads are normed.
layout(constant_id = 0) const bool NORMED = false;

layout(push_constant) uniform Push {
    uint rows, time;
    uint heads;      // of queries
    uint key_heads, width;
    uint capacity;   // S
    uint pairs;
    // The first element and the stride of rows.
    uint q_first, q_row, k_first, k_row, v_first, v_row;
    float eps;
    float scale;     // of sines and cosines
    uint pool_pages; // of caches that lie in pages
} push;

#define PAGES_SLOT 11
#define PAGED_KEYS push.capacity
#include "pages.glsl"

layout(set = 0, binding = 0) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1) readonly buffer K { float k[]; };
layout(set = 0, binding = 2) readonly buffer V { float v[]; };
layout(set = 0, binding = 3) readonly buffer QWeight { float q_weight[]; };
layout(set = 0, binding = 4) readonly buffer KWeight { float k_weight[]; };
layout(set = 0, binding = 5) readonly buffer Frequencies { float frequencies[]; };
layout(set = 0, binding = 6) readonly buffer FirstPositions { uint first_positions[]; };
layout(set = 0, binding = 7) readonly buffer Lengths { uint lengths[]; };
const uint QUERY = 0u;
const uint KEY = 1u;
const uint VALUE = 2u;

float source(uint kind, uint at) { return kind == QUERY ? q[at] : (kind == KEY ? k[at] : v[at]); }

float normed(uint kind, uint at, uint d, float rstd) {
    precise float x = source(kind, at + d);
    if (NORMED && kind != VALUE)
        x = hlx_mul(hlx_mul(x, rstd), kind == QUERY ? q_weight[d] : k_weight[d]);
    return x;
}

// A head of a token.
struct Line {
    uint kind, sample_idx, time;
    // Among the heads of its kind.
    uint head;
    // The position of the token, and the first element that is read.
    uint place, from;
};

// The line of 32 threads; past the last one that again.
Line own_line() {
    uint all_heads = push.heads + 2u * push.key_heads;
    uint line = min(hlx_row(), push.rows * all_heads - 1u);
    uint row = line / all_heads;
    uint head = line % all_heads;
    Line own;
    own.kind = head < push.heads ? QUERY : (head < push.heads + push.key_heads ? KEY : VALUE);
    own.sample_idx = row / push.time;
    own.time = row % push.time;
    own.place = first_positions[own.sample_idx] + own.time;
    own.head = own.kind == QUERY ? head : (head - push.heads) % push.key_heads;
    uint first = own.kind == QUERY ? push.q_first : (own.kind == KEY ? push.k_first : push.v_first);
    uint stride = own.kind == QUERY ? push.q_row : (own.kind == KEY ? push.k_row : push.v_row);
    own.from = first + row * stride + own.head * push.width;
    return own;
}

bool is_past_the_end() { return hlx_row() >= push.rows * (push.heads + 2u * push.key_heads); }
// Of a key or a value, whether the cache stays as it is.
bool is_padding(Line own) {
    return own.kind != QUERY && own.place >= min(lengths[own.sample_idx], push.capacity);
}

// With barriers: all threads call it.
float rstd_of(Line own) {
    precise float rstd = 1.0;
    if (NORMED) {
        precise vec4 lanes = vec4(0.0);
        HLX_EACH_LANE(d, push.width, {
            precise float x = source(own.kind, own.from + d);
            lanes[j] = hlx_add(lanes[j], hlx_mul(x, x));
        })
        precise float square = hlx_div(hlx_row_sum(lanes), float(push.width));
        rstd = hlx_div(1.0, hlx_sqrt(hlx_add(square, push.eps)));
    }
    return rstd;
}

// STORE(d, y) for each column d of the thread.
#define EACH_COLUMN(own, rstd, STORE)                                                       \
    uint pairs = own.kind == VALUE ? 0u : push.pairs;                                        \
    for (uint i = hlx_row_thread(); i < pairs; i += 32u) {                                   \
        precise float angle = hlx_mul(float(own.place), frequencies[i]);                     \
        precise float c = hlx_mul(hlx_cos(angle), push.scale);                               \
        precise float s = hlx_mul(hlx_sin(angle), push.scale);                               \
        precise float first = normed(own.kind, own.from, i, rstd);                           \
        precise float second = normed(own.kind, own.from, i + pairs, rstd);                  \
        STORE(i, hlx_fma(first, c, -hlx_mul(second, s)));                                    \
        STORE(i + pairs, hlx_fma(second, c, hlx_mul(first, s)));                             \
    }                                                                                        \
    for (uint d = 2u * pairs + hlx_row_thread(); d < push.width; d += 32u)                   \
        STORE(d, normed(own.kind, own.from, d, rstd));
