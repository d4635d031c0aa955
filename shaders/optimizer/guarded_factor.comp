// The factor of clip_factor.comp, or -1 where the step is to be skipped: the norm, or one of the watched
// words, is NaN or infinite.
#include "../include/math.glsl"

layout(local_size_x = 1) in;

layout(push_constant) uniform Push {
    float max_norm;
    uint runs;    // of watched words
    uint run;     // words of a run
    uint stride;  // words from a run to the next
} push;

layout(set = 0, binding = 0) readonly restrict buffer Norm { float norm[]; };
layout(set = 0, binding = 1) readonly restrict buffer Watched { uint watched[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Factor { float factor[]; };

// By the exponent's bits: 255 is that of NaN and infinity.
bool is_finite(uint bits) {
    return (bits & 0x7f800000u) != 0x7f800000u;
}

void main() {
    bool finite = is_finite(floatBitsToUint(norm[0]));
    for (uint i = 0u; i < push.runs; ++i) {
        for (uint j = 0u; j < push.run; ++j) finite = finite && is_finite(watched[i * push.stride + j]);
    }
    precise float ratio = hlx_div(push.max_norm, hlx_add(norm[0], 1e-6));
    factor[0] = finite ? (ratio >= 1.0 ? 1.0 : ratio) : -1.0;
}
