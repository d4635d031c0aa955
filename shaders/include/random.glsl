// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011) and what HLX draws from it.
#include "math.glsl"

// Four random words for a counter under a key.
uvec4 hlx_philox4x32(uvec4 counter, uvec2 key) {
    for (uint round_idx = 0u; round_idx < 10u; ++round_idx) {
        uint high_0, low_0, high_1, low_1;
        umulExtended(HLX_PHILOX_M0, counter.x, high_0, low_0);
        umulExtended(HLX_PHILOX_M1, counter.z, high_1, low_1);
        counter = uvec4(high_1 ^ counter.y ^ key.x, low_1, high_0 ^ counter.w ^ key.y, low_0);
        key += uvec2(HLX_PHILOX_W0, HLX_PHILOX_W1);
    }
    return counter;
}

// A word to [0, 1): its upper 24 bits, exactly.
float hlx_uniform(uint word) {
    return hlx_mul(float(word >> 8), HLX_TWO_M24);
}

// Two words to two standard normal values (Box and Muller); the largest is 5.77.
vec2 hlx_normal_pair(uint word_0, uint word_1) {
    precise float u = hlx_mul(float((word_0 >> 8) + 1u), HLX_TWO_M24); // (0, 1]
    precise float radius = hlx_sqrt(hlx_mul(-2.0, hlx_log(u)));
    precise float angle = hlx_mul(HLX_TWO_PI, hlx_uniform(word_1));
    precise vec2 pair = vec2(hlx_mul(radius, hlx_cos(angle)), hlx_mul(radius, hlx_sin(angle)));
    return pair;
}
