// y = max(x scale + bias, 0)^2, one scale and bias per column: the kernel of inference.py.
//
// x and y are [B, F], scale and bias [F]; every product and sum is rounded by itself, by the rules of docs/numerics.md.
#version 460
#include "../../shaders/include/arith.glsl"

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly buffer Y { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= y.length()) return;
    uint f = i % scale.length();
    float value = hlx_add(hlx_mul(x[i], scale[f]), bias[f]);
    float positive = value > 0.0 || hlx_isnan(value) ? value : 0.0;
    y[i] = hlx_mul(positive, positive);
}
