// The clipped gradient, which Adafactor's other kernels read; u is written in the place of the parameters of the other
// steps.
#include "hyper.glsl"

void advance(uint at, float gradient, inout float u, inout float a, inout float b, inout float c) {
    u = clipped(at, gradient);
}

#define HLX_STATES 0
#include "step.glsl"
