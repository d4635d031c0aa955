// Adafactor's step along its direction u, which is read in the gradient's place, by a factor in the clip's:
//   p = (1 - lr lambda) p - factor u.
#include "hyper.glsl"

void advance(uint at, float u, inout float p, inout float a, inout float b, inout float c) {
    p = hlx_fma(-clip[0], u, hlx_mul(KEEP, p));
}

#define HLX_STATES 0
#include "step.glsl"
