// One of Adafactor's running means f of squares, whose newest value is read in the gradient's place:
//   f = f + w (mean - f), w = t^decay, which is 1 - beta2. SQUARES: the square of what is read is the newest value.
#include "hyper.glsl"

layout(constant_id = 0) const uint SQUARES = 0u;

void advance(uint at, float x, inout float f, inout float a, inout float b, inout float c) {
    precise float mean = SQUARES != 0u ? hlx_mul(x, x) : x;
    f = hlx_fma(ONE_MINUS_BETA2, hlx_sub(mean, f), f);
}

#define HLX_STATES 0
#include "step.glsl"
