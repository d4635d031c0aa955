// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2):
//   g = clip g;   u = sign(m + (1 - beta1) (g - m));   m = m + (1 - beta2) (g - m)
//   p = (1 - lr lambda) p - lr u.   The sign of a zero of either sign is 0, that of NaN is NaN.
#include "hyper.glsl"

void advance(uint at, float gradient, inout float p, inout float m, inout float unused, inout float unused_too) {
    precise float change = hlx_sub(clipped(at, gradient), m);
    precise float u = hlx_fma(ONE_MINUS_BETA1, change, m);
    u = u > 0.0 ? 1.0 : (u < 0.0 ? -1.0 : (u == 0.0 ? 0.0 : u));
    m = hlx_fma(ONE_MINUS_BETA2, change, m);
    p = hlx_fma(NEGATIVE_RATE, u, hlx_mul(KEEP, p));
}

#define HLX_STATES 1
#include "step.glsl"
