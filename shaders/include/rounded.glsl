// Numbers rounded to 16 bits, as bf16 or f16: constant HALF_TYPE of a pipeline is the type's number.
#include "convert.glsl"

layout(constant_id = HALF_TYPE) const uint TYPE = HLX_BF16;

uint half_of(float x) {
    uint bits = floatBitsToUint(x);
    return TYPE == HLX_F16 ? hlx_f16_of_float(bits) : hlx_bf16_of_float(bits);
}
uint halves_of(vec2 pair) { return half_of(pair.x) | half_of(pair.y) << 16; }
