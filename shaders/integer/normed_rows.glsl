// The result of a norm of rows as integers of 16 bits, with the norm's statistics; its floats are stored nowhere. x: [rows, cols], of
// one piece; digits: [2, rows, words], the upper digits first, zeros past cols; exponents: [rows].
// The norm is one of norm/kind.glsl; stats: [rows, 2] or [rows]. With HELD a workgroup holds its rows in registers until it
// knows their largest magnitude.
#ifdef CENTRED
#define MEAN found.x
#define RSTD found.y
#else
#define RSTD found
#endif
#define HLX_REDUCTIONS 2
#include "../include/math.glsl"
#include "../include/integer.glsl"
#include "../norm/kind.glsl"
#ifndef HELD
const uint HLX_GROUP_ROWS = HLX_ROWS;
const uint HLX_THREADS = 32u;
#endif

// cols is a multiple of four.
layout(constant_id = 4) const bool VECTORS = false;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly restrict buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Digits { uint digits[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Exponents { int exponents[]; };
layout(set = 0, binding = 5) writeonly restrict buffer Stats { float stats[]; };
layout(push_constant) uniform Push { uint rows; uint cols; float eps; uint words; } push;

#include "../norm/statistics.glsl"

float normed(float x, STATISTICS found, uint col) { return RESULT(NORMAL(x), col); }

shared uint tops[HLX_GROUP_ROWS];

// Numbers 4 i .. 4 i + 3 of the row that lies from base on, zeros past its end.
vec4 load(uint base, uint i, STATISTICS found) {
    vec4 v = vec4(0.0);
    if (VECTORS && 4u * i < push.cols) v = x_vectors[base / 4u + i];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint col = 4u * i + j;
        if (col >= push.cols) continue;
        v[j] = normed(VECTORS ? v[j] : x[base + col], found, col);
    }
    return v;
}

void main() {
    uint thread = hlx_row_thread();
#ifdef HELD
    uint row = hlx_row(push.rows);
    bool is_row = hlx_is_row(push.rows);
    uint own = hlx_local_row();
    uint base = row * COLS;
    precise float v[HLX_HELD];
    precise STATISTICS found = statistics(base, v);
    uint top = 0u;
    HLX_EACH(i) if (hlx_has(i)) {
        uint col = hlx_col(i);
        // v has the mean removed already.
        precise float y = RESULT(hlx_mul(v[i], RSTD), col);
        top = max(top, hlx_magnitude(y));
    }
#else
    uint row = hlx_row();
    bool is_row = row < push.rows;
    uint own = gl_LocalInvocationID.x / HLX_THREADS;
    uint end = is_row ? push.cols : 0u;
    uint base = row * push.cols;
    precise STATISTICS found = statistics(base, end);
    uint top = 0u;
    for (uint col = thread; col < end; col += HLX_THREADS) {
        precise float y = normed(x[base + col], found, col);
        top = max(top, hlx_magnitude(y));
    }
#endif
    if (thread == 0u) tops[own] = 0u;
    barrier();
    // The largest of integers: no order shows.
    atomicMax(tops[own], top);
    barrier();
    if (!is_row) return;
    int exponent = hlx_row_exponent(tops[own], true);
    vec2 scale = hlx_scale(exponent);
    if (thread == 0u) {
        exponents[row] = exponent;
        STORE_STATS(row, found)
    }
    // Rows in the order of memory, which the cache still holds.
    for (uint i = thread; i < push.words; i += HLX_THREADS) {
        ivec4 q = hlx_quantised4(load(base, i, found), exponent, scale);
        digits[row * push.words + i] = hlx_upper_digits(q);
        digits[(push.rows + row) * push.words + i] = hlx_lower_digits(q);
    }
}
