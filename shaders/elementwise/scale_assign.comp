// A tensor times a number in device memory, in place: y[i] = y[i] * factor[0].
#define HLX_ALONE
#include "../include/map.glsl"

layout(set = 0, binding = HLX_NEXT_BINDING) readonly restrict buffer Factor { float factor[]; };

float apply(float y) { return hlx_mul(y, factor[0]); }
