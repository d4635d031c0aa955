// A value where a mask holds: out[i] = mask[i] ? value : x[i]; the value is parameter 0, in the
// bits of the type that is copied.
#define HLX_OPERANDS 2
#include "../include/elements.glsl"

uint apply(uint x, uint mask) { return mask != 0u ? push.parameters[0] : x; }
