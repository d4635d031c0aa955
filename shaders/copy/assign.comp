// Words of a strided operand written into a strided layout: y[i] = x[i] for every index.
//
// Operand 0 of the walk is x, operand 1 is y, whose elements do not overlap; four elements a thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#define HLX_OPERANDS 2
#define HLX_DIMENSIONS 8
#include "../include/arith.glsl"
#include "../include/walk.glsl"

layout(local_size_x = 256) in;

// 1 where both operands have their four elements behind each other from a multiple of four on.
layout(constant_id = 985) const uint VECTORS = 0u;

layout(set = 0, binding = 0) readonly restrict buffer X1 { uint x1[]; };
layout(set = 0, binding = 0) readonly restrict buffer X4 { uvec4 x4[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y1 { uint y1[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y4 { uvec4 y4[]; };

void main() {
    uint quad = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint quads = (push.count >> 2) + ((push.count & 3u) != 0u ? 1u : 0u);
    if (quad >= quads) return;
    uint n = min(4u, push.count - 4u * quad);
    uvec3 place[4];
    hlx_quad_places(4u * quad, n, place);
    if (VECTORS != 0u && n == 4u) {
        y4[place[0].y >> 2] = x4[place[0].x >> 2];
        return;
    }
    uvec4 word;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) word[j] = x1[place[j].x];
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < n) y1[place[j].y] = word[j];
}
