// Evenly spaced values: out[i] = start + i step, of floats with one rounding of the sum.
// Parameters: start and step, words of the compute type.
#include "../include/indices.glsl"

uint value_at(uint index) {
    uint start = push.parameters[0];
    uint step = push.parameters[1];
    if (COMPUTE != HLX_F32) return start + index * step;
    precise float i = hlx_float_of_uint(index);
    return floatBitsToUint(hlx_fma(i, uintBitsToFloat(step), uintBitsToFloat(start)));
}
