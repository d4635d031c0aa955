// The matrix that Muon makes orthogonal, as torch.optim.Muon:
//   g = clip g;   m = m + (1 - mu) (g - m);   u = m, or g + mu (m - g) with NESTEROV.
// u is written in the place of the parameters of the other steps; 1 - mu is 1 - beta1.
#include "hyper.glsl"

layout(constant_id = 0) const uint NESTEROV = 0u;

void advance(uint at, float gradient, inout float u, inout float m, inout float unused, inout float unused_too) {
    precise float g = clipped(at, gradient);
    m = hlx_fma(ONE_MINUS_BETA1, hlx_sub(g, m), m);
    u = NESTEROV != 0u ? hlx_fma(MOMENTUM, hlx_sub(m, g), g) : m;
}

#define HLX_STATES 1
#include "step.glsl"
