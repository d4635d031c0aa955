// Dropout: y = x / (1 - p) where a uniform random number is at least p, else +0.
//
// x, y [batch, per_sample]. The random number of an element is component `index % 4` of
// Philox 4x32-10 under key = seed and
//   counter = (index / 4, sample_base + sample, step, purpose)
// with index the element's place in its sample (time * width + column), so that neither the
// batch a sample rides in, nor how far it is padded, nor the launch shape reaches the mask.
// A thread has one counter, that is four elements of a sample, which
// are one vector where samples hold whole vectors.
#include "../include/random.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint batch, per_sample, seed_low, seed_high, purpose;
    float p, factor;
} push;

HLX_VIEWS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) readonly restrict buffer Counter { uint step_and_base[]; };
HLX_VIEWS(2, writeonly restrict, float, Y, y)

float dropped(float x, uint word) {
    return hlx_uniform(word) >= push.p ? hlx_mul(x, push.factor) : 0.0;
}

void main() {
    uint quads = (push.per_sample + 3u) / 4u;
    uint thread = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint sample_idx = thread / quads;
    uint quad = thread % quads;
    if (sample_idx >= push.batch) return;
    uvec4 words = hlx_philox4x32(
        uvec4(quad, step_and_base[1] + sample_idx, step_and_base[0], push.purpose),
        uvec2(push.seed_low, push.seed_high));
    if ((push.per_sample & 3u) == 0u) {
        precise vec4 x = x4[thread];
        y4[thread] = vec4(dropped(x.x, words.x), dropped(x.y, words.y),
                          dropped(x.z, words.z), dropped(x.w, words.w));
        return;
    }
    uint begin = sample_idx * push.per_sample + 4u * quad;
    uint count = min(4u, push.per_sample - 4u * quad);
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < count) y1[begin + j] = dropped(x1[begin + j], words[j]);
}
