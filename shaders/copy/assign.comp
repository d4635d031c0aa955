// Words of a strided operand written into a strided layout: y[i] = x[i] for every index.
//
// Operand 0 of the walk is x, operand 1 is y, whose elements do not overlap. A thread has four
// elements: a vector where both operands have such, else 256 apart, so that neighbouring threads
// write neighbouring words.
#define HLX_OPERANDS 2
#define HLX_DIMENSIONS 8
#include "../include/arith.glsl"
#include "../include/walk.glsl"

layout(local_size_x = 256) in;

// 1 where the count is a multiple of four, and both operands have four elements behind each other
// from each multiple of four on.
layout(constant_id = 985) const uint VECTORS = 0u;

HLX_VIEWS(0, readonly restrict, uint, X, x)
HLX_VIEWS(1, writeonly restrict, uint, Y, y)

void main() {
    uint thread = gl_LocalInvocationID.x;
    if (VECTORS != 0u) {
        uint quad = hlx_group() * 256u + thread;
        if (quad >= push.count >> 2) return;
        uvec3 place = hlx_places(4u * quad);
        y4[place.y >> 2] = x4[place.x >> 2];
        return;
    }
    uint first = hlx_group() * 1024u + thread;
    uvec3 place[4];
    uint word[4];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        place[j] = hlx_places(min(first + 256u * j, push.count - 1u));
        word[j] = x1[place[j].x];
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (first + 256u * j < push.count) y1[place[j].y] = word[j];
}
