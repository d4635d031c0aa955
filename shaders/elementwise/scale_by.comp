// A tensor times a number in device memory: y[i] = x[i] * factor[0].
#include "../include/map.glsl"

layout(set = 0, binding = HLX_NEXT_BINDING) readonly restrict buffer Factor { float factor[]; };

float apply(float x) { return hlx_mul(x, factor[0]); }
