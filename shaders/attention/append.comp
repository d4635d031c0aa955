// New tokens of sequences on their way into attention: queries and keys are normed and turned where they
// are to be, keys and values are written behind those that a cache holds.
//
// Token t of sample b has the place p = first[b] + t; where p >= lengths[b] it is padding, and nothing is
// written into the cache. For a head x of a query or a key:
//   n = (x rstd) weight, rstd = 1 / sqrt((sum_d x^2) / D + eps), where NORMED, else x;
//   y = n turned by the angle of position p (rope.comp); the pairs may be none.
// q: [B T, H, D], k, v: [B T, G, D], by row strides; q_out: [B, T, H, D]; caches: [B, S, G, D].
// 32 threads have a head of a row; the sum of squares has the order of include/reduce.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "../include/reduce.glsl"

// Heads are normed.
layout(constant_id = 0) const bool NORMED = false;

layout(push_constant) uniform Push {
    uint rows;
    uint time;
    uint heads;      // of queries
    uint key_heads;
    uint width;
    uint capacity;   // S
    uint pairs;
    // The first element and the stride of rows.
    uint q_first;
    uint q_row;
    uint k_first;
    uint k_row;
    uint v_first;
    uint v_row;
    float eps;
    float scale;     // of sines and cosines
} push;

layout(set = 0, binding = 0) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1) readonly buffer K { float k[]; };
layout(set = 0, binding = 2) readonly buffer V { float v[]; };
layout(set = 0, binding = 3) readonly buffer QWeight { float q_weight[]; };
layout(set = 0, binding = 4) readonly buffer KWeight { float k_weight[]; };
layout(set = 0, binding = 5) readonly buffer Frequencies { float frequencies[]; };
layout(set = 0, binding = 6) readonly buffer FirstPositions { uint first_positions[]; };
layout(set = 0, binding = 7) readonly buffer Lengths { uint lengths[]; };
layout(set = 0, binding = 8) writeonly buffer QOut { float q_out[]; };
layout(set = 0, binding = 9) buffer KCache { float k_cache[]; };
layout(set = 0, binding = 10) buffer VCache { float v_cache[]; };

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

void store(uint kind, uint at, float y) {
    if (kind == QUERY) q_out[at] = y;
    if (kind == KEY) k_cache[at] = y;
    if (kind == VALUE) v_cache[at] = y;
}

void main() {
    uint all_heads = push.heads + 2u * push.key_heads;
    uint line = min(hlx_row(), push.rows * all_heads - 1u);
    uint row = line / all_heads;
    uint head = line % all_heads;
    uint kind = head < push.heads ? QUERY : (head < push.heads + push.key_heads ? KEY : VALUE);
    uint sample_idx = row / push.time;
    uint place = first_positions[sample_idx] + row % push.time;

    // Where the head is read and written.
    uint from = push.q_first + row * push.q_row + head * push.width;
    uint to = (row * push.heads + head) * push.width;
    if (kind != QUERY) {
        uint key_head = (head - push.heads) % push.key_heads;
        uint first = kind == KEY ? push.k_first : push.v_first;
        uint stride = kind == KEY ? push.k_row : push.v_row;
        from = first + row * stride + key_head * push.width;
        to = ((sample_idx * push.capacity + place) * push.key_heads + key_head) * push.width;
    }

    precise float rstd = 1.0;
    if (NORMED) {
        precise vec4 lanes = vec4(0.0);
        for (uint first = hlx_row_thread(); first < push.width; first += HLX_LANES)
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint d = first + 32u * j;
                if (d < push.width) {
                    precise float x = source(kind, from + d);
                    lanes[j] = hlx_add(lanes[j], hlx_mul(x, x));
                }
            }
        precise float square = hlx_div(hlx_row_sum(lanes), float(push.width));
        rstd = hlx_div(1.0, hlx_sqrt(hlx_add(square, push.eps)));
    }
    if (hlx_row() >= push.rows * all_heads) return;
    if (kind != QUERY && place >= min(lengths[sample_idx], push.capacity)) return;

    uint pairs = kind == VALUE ? 0u : push.pairs;
    for (uint i = hlx_row_thread(); i < pairs; i += 32u) {
        precise float angle = hlx_mul(float(place), frequencies[i]);
        precise float c = hlx_mul(hlx_cos(angle), push.scale);
        precise float s = hlx_mul(hlx_sin(angle), push.scale);
        precise float first = normed(kind, from, i, rstd);
        precise float second = normed(kind, from, i + pairs, rstd);
        store(kind, to + i, hlx_fma(first, c, -hlx_mul(second, s)));
        store(kind, to + i + pairs, hlx_fma(second, c, hlx_mul(first, s)));
    }
    for (uint d = 2u * pairs + hlx_row_thread(); d < push.width; d += 32u)
        store(kind, to + d, normed(kind, from, d, rstd));
}
