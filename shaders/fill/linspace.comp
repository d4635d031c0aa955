// Evenly spaced values from start to end, both included: the first half counted from start, the
// second from end. Parameters: start, end and step in f32, the last index.
#include "../include/indices.glsl"

uint value_at(uint index) {
    uint last = push.parameters[3];
    bool lower = index < (last + 1u) / 2u;
    precise float step = uintBitsToFloat(push.parameters[2]);
    precise float from = uintBitsToFloat(push.parameters[lower ? 0 : 1]);
    precise float i = hlx_float_of_uint(lower ? index : last - index);
    return floatBitsToUint(hlx_fma(i, lower ? step : -step, from));
}
