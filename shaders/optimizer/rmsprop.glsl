// RMSprop, as torch.optim.RMSprop, alpha being beta2:
//   g = clip g + lambda p;   s = alpha s + (1 - alpha) g^2
//   with HLX_CENTERED: mu = mu + (1 - alpha) (g - mu), r = max(s - mu^2, 0);   else r = s
//   d = g / (sqrt(r) + eps);   with HLX_MOMENTUM: m = momentum m + d, d = m;   p = p - lr d.
// The state is s, then m, then mu.
#include "../include/math.glsl"
#include "hyper.glsl"

void step_of(uint at, float gradient, inout float p, inout float s, inout float m, inout float mean) {
    precise float g = hlx_fma(WEIGHT_DECAY, p, clipped(at, gradient));
    s = hlx_fma(hlx_mul(ONE_MINUS_BETA2, g), g, hlx_mul(BETA2, s));
    precise float spread = s;
#ifdef HLX_CENTERED
    mean = hlx_fma(ONE_MINUS_BETA2, hlx_sub(g, mean), mean);
    spread = hlx_fma(-mean, mean, s);
    spread = spread < 0.0 ? 0.0 : spread;
#endif
    precise float d = hlx_div(g, hlx_add(hlx_sqrt(spread), EPSILON));
#ifdef HLX_MOMENTUM
    m = hlx_fma(MOMENTUM, m, d);
    d = m;
#endif
    p = hlx_fma(NEGATIVE_RATE, d, p);
}

void advance(uint at, float gradient, inout float p, inout float a, inout float b, inout float c) {
#ifdef HLX_MOMENTUM
    step_of(at, gradient, p, a, b, c);
#else
    step_of(at, gradient, p, a, c, b);
#endif
}

#include "step.glsl"
