// Derivative of the squared error: dx[i] = 2 (x[i] - b[i]) * scale[0].
#define HLX_BINARY
#include "../include/map.glsl"

layout(set = 0, binding = HLX_NEXT_BINDING) readonly restrict buffer Scale { float scale[]; };

float apply(float x, float b) { return hlx_mul(hlx_mul(2.0, hlx_sub(x, b)), scale[0]); }
