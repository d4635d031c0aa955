// Looks rows of a weight in blocks (blocks.glsl) up: y[row, k] = (d scale) q - dmin min of the row ids[row]; y [n, terms].
// In NF4 it is d times the table's number. 16 terms per thread. An id past the rows gives NaN, so that it cannot pass unseen.
#include "blocks.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n, rows, terms;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { vec4 y[]; };

// The numbers of NF4, as bits of f32.
const uint NF4_NUMBERS[16] = uint[](
    0xbf800000u, 0xbf3239b1u, 0xbf066b30u, 0xbeca32a0u, 0xbe91a24du, 0xbe3d353fu, 0xbdba7871u, 0x00000000u,
    0x3da2faffu, 0x3e24cae3u, 0x3e7c04ddu, 0x3ead033au, 0x3ee1a4b8u, 0x3f1007abu, 0x3f3913b3u, 0x3f800000u);

void main() {
    uint units = push.terms / 16u;
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (i >= push.n * units) return;
    uint id = ids[i / units];
    precise vec4 values[4];
    [[unroll]] for (uint quad = 0u; quad < 4u; ++quad) values[quad] = vec4(uintBitsToFloat(HLX_NAN));
    if (id < push.rows) {
        uint unit = i % units;
        uint at = chunk_at(id, unit / (CHUNK / 16u), (push.terms + CHUNK - 1u) / CHUNK);
        unit %= CHUNK / 16u;
        uvec4 low = unit_low(at, unit);
        uint high = unit_high(at, unit);
        uint group = unit % (BLOCK / 16u) / (GROUP / 16u);
        vec2 factors = block_factors(at, unit / (BLOCK / 16u));
        precise float scale = hlx_mul(factors.x, float(block_scale(at, group)));
        precise float least = HAS_MINS ? hlx_mul(factors.y, float(block_min(at, group))) : 0.0;
        [[unroll]] for (uint quad = 0u; quad < 4u; ++quad) {
            uint four = IS_NF4 ? quad_bits(low, high, unit, quad) : quad_of(low, high, unit, quad);
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                int q = bitfieldExtract(int(four), int(8u * j), 8) - int(OFFSET);
                precise float number = IS_NF4 ? uintBitsToFloat(NF4_NUMBERS[q & 15]) : float(q);
                values[quad][j] = hlx_sub(hlx_mul(scale, number), least);
            }
        }
    }
    [[unroll]] for (uint quad = 0u; quad < 4u; ++quad) y[4u * i + quad] = values[quad];
}
