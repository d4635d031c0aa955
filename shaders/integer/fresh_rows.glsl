// The integers of a workgroup's rows of a, which are floats, x: those of x, with OF_GATED those of f(x) up (source.glsl), with
// NORMED those of (x rstd) gain, an RMS norm. Each workgroup of 256 threads makes them for itself, in place of a launch before
// the product. Such a row is one piece of whole units. A shader declares ROWS and HELD, units of a row per 32 threads; without
// FRESH its rows are prepared.
#ifdef FRESH
const uint MOST_UNITS = 32u * HELD;
// Vectors of a row that a thread has.
const uint OWN_VECTORS = (HELD + 1u) / 2u;

layout(set = 0, binding = 0) readonly buffer X { vec4 x_vectors[]; };
#ifdef NORMED
layout(constant_id = 18) const float EPS = 0.0;
layout(set = 0, binding = 0) readonly buffer XScalars { float a_scalars[]; };
layout(set = 0, binding = 8) readonly restrict buffer Gain { vec4 gain[]; };
#include "../include/math.glsl"
#define NORM_TERMS (16u * push.units)
#define NORM_EPS EPS
#include "../norm/few_rows.glsl"
#else
#define SOURCE_BINDING 8
#define SOURCE_KIND 19
#include "source.glsl"
#endif

shared uvec4 a_units[2u * ROWS * MOST_UNITS];
shared uint tops[ROWS];
shared int own_exponents[ROWS];

// Makes the integers of the workgroup's rows.
void prepare_rows() {
    uint vectors = 4u * push.units;
    vec4 v[ROWS][OWN_VECTORS];
    [[unroll]] for (uint m = 0u; m < ROWS; ++m)
        [[unroll]] for (uint j = 0u; j < OWN_VECTORS; ++j) {
            uint i = min(gl_LocalInvocationIndex + j * 256u, vectors - 1u);
            v[m][j] = x_vectors[row_of_a(m) * vectors + i];
        }
    if (gl_LocalInvocationIndex < ROWS) tops[gl_LocalInvocationIndex] = 0u;
#ifdef NORMED
    norm_rows(tile.a_first);
#else
    barrier();
#endif
    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
        uint top = 0u;
        [[unroll]] for (uint j = 0u; j < OWN_VECTORS; ++j) {
            uint i = min(gl_LocalInvocationIndex + j * 256u, vectors - 1u);
#ifdef NORMED
            vec4 factor = gain[i];
            precise vec4 y;
            [[unroll]] for (uint c = 0u; c < 4u; ++c) y[c] = hlx_mul(hlx_mul(v[m][j][c], rstds[m]), factor[c]);
            v[m][j] = y;
#else
            uint row = row_of_a(m);
            v[m][j] = of_source4(v[m][j], row, 4u * i, 4u * vectors, 4u * (row * vectors + i));
#endif
            [[unroll]] for (uint c = 0u; c < 4u; ++c) top = max(top, hlx_magnitude(v[m][j][c]));
        }
        // The largest of integers: no order shows.
        atomicMax(tops[m], top);
    }
    barrier();
    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
        int exponent = hlx_row_exponent(tops[m], true);
        vec2 scale = hlx_scale(exponent);
        if (gl_LocalInvocationIndex == 0u) own_exponents[m] = exponent;
        [[unroll]] for (uint j = 0u; j < OWN_VECTORS; ++j) {
            uint i = gl_LocalInvocationIndex + j * 256u;
            if (i >= vectors) break;
            ivec4 q = hlx_quantised4(v[m][j], exponent, scale);
            a_units[2u * m * MOST_UNITS + i / 4u][i % 4u] = hlx_upper_digits(q);
            a_units[(2u * m + 1u) * MOST_UNITS + i / 4u][i % 4u] = hlx_lower_digits(q);
        }
    }
    barrier();
}
#define A_UNIT(m, plane, unit) a_units[(2u * (m) + (plane)) * MOST_UNITS + (unit)]
#define EXPONENT_OF_A(m, piece) own_exponents[m]
#else
#define A_UNIT(m, plane, unit) a[unit_of_a(tile.a_first + (m), plane, unit)]
#define EXPONENT_OF_A(m, piece) a_exponents[row_of_a(m) * pieces() + (piece)]
#endif
