// Looks rows of a weight in blocks (blocks.glsl) up: y[row, k] = (d scale) q - dmin min of the row ids[row]; y [n, terms].
// 16 terms per thread. An id past the rows gives NaN, so that it cannot pass unseen.
#include "blocks.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n, rows, terms;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { vec4 y[]; };

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
        uvec4 integers = block_unit(at, unit);
        uint group = unit % (BLOCK / 16u) / (GROUP / 16u);
        vec2 factors = block_factors(at, unit / (BLOCK / 16u));
        precise float scale = hlx_mul(factors.x, float(block_scale(at, group)));
        precise float least = HAS_MINS ? hlx_mul(factors.y, float(block_min(at, group))) : 0.0;
        [[unroll]] for (uint quad = 0u; quad < 4u; ++quad)
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                int q = bitfieldExtract(int(integers[quad]), int(8u * j), 8) - int(OFFSET);
                values[quad][j] = hlx_sub(hlx_mul(scale, float(q)), least);
            }
    }
    [[unroll]] for (uint quad = 0u; quad < 4u; ++quad) y[4u * i + quad] = values[quad];
}
