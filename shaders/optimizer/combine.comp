// One combination of a Newton-Schulz step: y = fma(ALPHA, x, BETA y).
#define HLX_IN_PLACE
#include "../include/map.glsl"

// The bits of two floats.
layout(constant_id = 0) const uint ALPHA = 0u;
layout(constant_id = 1) const uint BETA = 0u;

float apply(float x, float y) {
    return hlx_fma(uintBitsToFloat(ALPHA), x, hlx_mul(uintBitsToFloat(BETA), y));
}
