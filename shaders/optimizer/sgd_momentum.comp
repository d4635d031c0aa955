// Stochastic gradient descent with momentum, as torch.optim.SGD:
//   d = clip g + lambda p;   m = mu m + (1 - dampening) d, without dampening in the first step
//   d = m, or d + mu m with NESTEROV;   p = p - lr d.
#include "hyper.glsl"

layout(constant_id = 0) const uint NESTEROV = 0u;

void advance(uint at, float gradient, inout float p, inout float m, inout float unused, inout float unused_too) {
    precise float d = hlx_fma(WEIGHT_DECAY, p, clipped(at, gradient));
    m = hlx_fma(MOMENTUM, m, hlx_mul(FRESH, d));
    d = NESTEROV != 0u ? hlx_fma(MOMENTUM, m, d) : m;
    p = hlx_fma(NEGATIVE_RATE, d, p);
}

#define HLX_STATES 1
#include "step.glsl"
