// The rows of heads rounded to 16 bits: x: [batch, positions, heads, k] by strides; y: [batch, heads, positions] rows of units of
// eight halves, zeros past k. A thread has a unit.
#define HALF_TYPE 0
#include "../include/rounded.glsl"

layout(local_size_x = 256) in;

// k, the strides and the first element are multiples of four.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint rows, heads, positions, k;
    uint units;  // of a row
    // The first element, and the strides of samples, positions and heads.
    uint first, batch_stride, position_stride, head_stride;
} push;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Y { uvec4 y[]; };

void main() {
    uint unit = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (unit >= push.rows * push.units) return;
    uint row = unit / push.units;
    uint column = unit % push.units * 8u;
    uint all_heads = row / push.positions;
    uint at = push.first + all_heads / push.heads * push.batch_stride + all_heads % push.heads * push.head_stride +
        row % push.positions * push.position_stride + column;
    uvec4 packed = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        vec4 v = vec4(0.0);
        uint first = column + 4u * i;
        if (VECTORS) {
            if (first < push.k) v = x_vectors[at / 4u + i];
        } else {
            [[unroll]] for (uint j = 0u; j < 4u; ++j)
                if (first + j < push.k) v[j] = x[at + 4u * i + j];
        }
        packed[2u * i] = halves_of(v.xy);
        packed[2u * i + 1u] = halves_of(v.zw);
    }
    y[unit] = packed;
}
