// Adagrad, as torch.optim.Adagrad; lr is already divided by 1 + (t - 1) lr_decay:
//   g = clip g + lambda p;   s = s + g^2;   p = p - lr g / (sqrt(s) + eps).
#include "../include/math.glsl"
#include "hyper.glsl"

void advance(uint at, float gradient, inout float p, inout float s, inout float unused, inout float unused_too) {
    precise float g = hlx_fma(WEIGHT_DECAY, p, clipped(at, gradient));
    s = hlx_fma(g, g, s);
    p = hlx_fma(NEGATIVE_RATE, hlx_div(g, hlx_add(hlx_sqrt(s), EPSILON)), p);
}

#define HLX_STATES 1
#include "step.glsl"
