// Adam and AdamW, as torch.optim.Adam and AdamW (no amsgrad):
//   g = clip g;   Adam: g = g + lambda p;   AdamW: p = (1 - lr lambda) p
//   m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
#include "../include/math.glsl"
#include "hyper.glsl"

layout(constant_id = 0) const uint DECOUPLED = 0u;  // 1: AdamW

void advance(uint at, float gradient, inout float p, inout float m, inout float v, inout float unused) {
    precise float g = clipped(at, gradient);
    if (DECOUPLED == 0u) g = hlx_fma(WEIGHT_DECAY, p, g);
    else p = hlx_mul(KEEP, p);
    m = hlx_fma(ONE_MINUS_BETA1, hlx_sub(g, m), m);
    v = hlx_fma(hlx_mul(ONE_MINUS_BETA2, g), g, hlx_mul(BETA2, v));
    precise float denominator = hlx_fma(hlx_sqrt(v), INVERSE_ROOT, EPSILON);
    p = hlx_fma(NEGATIVE_STEP, hlx_div(m, denominator), p);
}

#define HLX_STATES 2
#include "step.glsl"
