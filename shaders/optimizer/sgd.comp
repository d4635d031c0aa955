// Stochastic gradient descent without momentum, as torch.optim.SGD:
//   d = clip g + lambda p;   p = p - lr d.
#include "hyper.glsl"

void advance(uint at, float gradient, inout float p, inout float a, inout float b, inout float c) {
    precise float d = hlx_fma(WEIGHT_DECAY, p, clipped(at, gradient));
    p = hlx_fma(NEGATIVE_RATE, d, p);
}

#define HLX_STATES 0
#include "step.glsl"
