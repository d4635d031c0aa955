// Random values by index: element i is made of component i % 4 of Philox 4x32-10 under the key
// (parameters 0 and 1) and counter = (i / 4, 0, stream, purpose) (parameters 2 and 3).
//
// DISTRIBUTION is 0 uniform in [a, b), 1 normal with mean a and deviation b, 2 integers in
// [a, a + b) (b = 0: all words), 3 one with probability a, else zero; a and b are parameters 4 and 5.
#define HLX_OUT 0
#include "../include/stored.glsl"
#include "../include/random.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const uint DISTRIBUTION = 0u;

layout(push_constant) uniform Push {
    uint count, first, parameters[6];
} push;

uint drawn(uint word) {
    precise float a = uintBitsToFloat(push.parameters[4]);
    precise float b = uintBitsToFloat(push.parameters[5]);
    if (DISTRIBUTION == 2u) {
        uint high, low;
        umulExtended(word, push.parameters[5], high, low);
        return push.parameters[4] + (push.parameters[5] == 0u ? word : high);
    }
    if (DISTRIBUTION == 3u) return floatBitsToUint(hlx_uniform(word) < a ? 1.0 : 0.0);
    precise float value = hlx_fma(hlx_uniform(word), hlx_sub(b, a), a);
    return floatBitsToUint(value < b ? value : a);
}

uvec2 normal_pair(uint word_0, uint word_1) {
    precise vec2 pair = hlx_normal_pair(word_0, word_1);
    precise float mean = uintBitsToFloat(push.parameters[4]);
    precise float deviation = uintBitsToFloat(push.parameters[5]);
    return uvec2(floatBitsToUint(hlx_add(hlx_mul(pair.x, deviation), mean)),
                 floatBitsToUint(hlx_add(hlx_mul(pair.y, deviation), mean)));
}

void main() {
    uint quad = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (quad >= hlx_quads(push.count)) return;
    uvec4 words = hlx_philox4x32(
        uvec4((push.first >> 2) + quad, 0u, push.parameters[2], push.parameters[3]),
        uvec2(push.parameters[0], push.parameters[1]));
    uvec4 value;
    if (DISTRIBUTION == 1u)
        value = uvec4(normal_pair(words.x, words.y), normal_pair(words.z, words.w));
    else
        value = uvec4(drawn(words.x), drawn(words.y), drawn(words.z), drawn(words.w));
    hlx_store_quad(quad, hlx_left(quad, push.count), value);
}
