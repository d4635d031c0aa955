// Looks rows up: y[row, :] = weight[ids[row], :]; y [n, width], weight [vocabulary, width].
//
// An id outside the vocabulary gives a row of NaN, so that it cannot pass unseen.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n;
    uint vocabulary;
    uint width;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
layout(set = 0, binding = 1) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Y { float y[]; };

void main() {
    uint element = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint row = element / push.width;
    if (row >= push.n) return;
    uint id = ids[row];
    y[element] = id < push.vocabulary ? weight[id * push.width + (element - row * push.width)]
                                      : uintBitsToFloat(0x7fc00000u);
}
