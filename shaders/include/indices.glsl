// The frame of kernels whose elements are functions of their index: out[i] = value_at(first + i),
// four elements per thread; out is contiguous and of any type.
//
// A shader includes this file, and defines value_at over words of the compute type; its parameters
// are push.parameters.

#define HLX_OUT 0
#include "stored.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint count, first, parameters[6];
} push;

uint value_at(uint index);

void main() {
    uint quad = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (quad >= hlx_quads(push.count)) return;
    uint n = hlx_left(quad, push.count);
    uvec4 value = uvec4(0u);
    for (uint j = 0u; j < n; ++j) value[j] = value_at(push.first + 4u * quad + j);
    hlx_store_quad(quad, n, value);
}
