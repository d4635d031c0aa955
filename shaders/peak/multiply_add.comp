// Eight independent chains of multiply-adds an element, to measure the device's arithmetic:
// v_j = x[i] + j, then `steps` times v_j = fma(v_j, factor, term), and y[i] = their sum in a tree.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; uint steps; float factor; float term; } push;

void main() {
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (i >= push.count) return;
    precise float a = push.factor;
    precise float b = push.term;
    precise float v[8];
    [[unroll]] for (uint j = 0u; j < 8u; ++j) v[j] = hlx_add(x[i], float(j));
    if (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u) {
        // Steps come in sixteens: few enough branches, little enough code for its cache.
        for (uint step = 0u; step < push.steps; step += 16u)
            [[unroll]] for (uint inner = 0u; inner < 16u; ++inner)
                [[unroll]] for (uint j = 0u; j < 8u; ++j) v[j] = hlx_fma(v[j], a, b);
    } else {
        [[dont_unroll]] for (uint j = 0u; j < 8u; ++j)
            for (uint step = 0u; step < push.steps; ++step) v[j] = hlx_fma(v[j], a, b);
    }
    precise float low = hlx_add(hlx_add(v[0], v[1]), hlx_add(v[2], v[3]));
    precise float high = hlx_add(hlx_add(v[4], v[5]), hlx_add(v[6], v[7]));
    y[i] = hlx_add(low, high);
}
