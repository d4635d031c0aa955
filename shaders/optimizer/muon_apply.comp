// Muon's step along an orthogonal matrix o, which is read in the gradient's place:
//   p = (1 - lr lambda) p - lr o.
#include "hyper.glsl"

void advance(uint at, float o, inout float p, inout float a, inout float b, inout float c) {
    p = hlx_fma(NEGATIVE_RATE, o, hlx_mul(KEEP, p));
}

#define HLX_STATES 0
#include "step.glsl"
