// An exponential moving average e of the parameters, which are read in the gradient's place, as
// torch.optim.swa_utils.get_ema_multi_avg_fn: e = e + (1 - decay) (p - e); 1 - decay is 1 - beta1.
#include "hyper.glsl"

void advance(uint at, float p, inout float e, inout float a, inout float b, inout float c) {
    e = hlx_fma(ONE_MINUS_BETA1, hlx_sub(p, e), e);
}

#define HLX_STATES 0
#include "step.glsl"
