// Looks rows up: y[row, :] = weight[ids[row], :]; y [n, width], weight [vocabulary, width].
//
// An id outside the vocabulary gives a row of NaN, so that it cannot pass unseen.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n, vocabulary, width;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
HLX_WITH_VECTORS(1, readonly restrict, float, Weight, weight)
HLX_WITH_VECTORS(2, writeonly restrict, float, Y, y)

// The width is a multiple of four: a thread has AHEAD vectors, 256 apart, whose loads are under way together. Else it has as many
// elements.
layout(constant_id = 0) const bool VECTORS = false;
layout(constant_id = 1) const uint AHEAD = 1;

void main() {
    uint width = VECTORS ? push.width / 4u : push.width;
    uint first = hlx_group() * 256u * AHEAD + gl_LocalInvocationID.x;
    uint from[AHEAD];
    bool is_known[AHEAD];
    [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
        uint element = first + 256u * i;
        uint row = element / width;
        uint id = row < push.n ? ids[row] : push.vocabulary;
        is_known[i] = id < push.vocabulary;
        from[i] = id * width + (element - row * width);
    }
    float none = uintBitsToFloat(0x7fc00000u);
    if (VECTORS) {
        vec4 v[AHEAD];
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i)
            v[i] = is_known[i] ? weight_vectors[from[i]] : vec4(none);
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i)
            if (first + 256u * i < push.n * width) y_vectors[first + 256u * i] = v[i];
    } else {
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i)
            if (first + 256u * i < push.n * width)
                y[first + 256u * i] = is_known[i] ? weight[from[i]] : none;
    }
}
