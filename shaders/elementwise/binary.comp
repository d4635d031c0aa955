// Sum, difference or product of two tensors: out[i] = x[i] op b[i].
#define HLX_BINARY
#include "../include/map.glsl"

layout(constant_id = 0) const uint OPERATION = 0u;  // 0 add, 1 sub, 2 mul

float apply(float x, float b) {
    if (OPERATION == 0u) return hlx_add(x, b);
    if (OPERATION == 1u) return hlx_sub(x, b);
    return hlx_mul(x, b);
}
