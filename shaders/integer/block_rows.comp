// Looks rows of a weight in blocks (blocks.glsl) up: y[row, k] = (d scale) q - dmin min of the row ids[row]; y [n, terms]. Four
// terms per thread. An id past the rows gives NaN, so that it cannot pass unseen.
#include "blocks.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n, rows, terms;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Ids { uint ids[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { vec4 y[]; };

void main() {
    uint quads = push.terms / 4u;
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (i >= push.n * quads) return;
    uint id = ids[i / quads];
    precise vec4 values = vec4(uintBitsToFloat(HLX_NAN));
    if (id < push.rows) {
        uint quad = i % quads;
        uint at = chunk_at(id, quad / (CHUNK / 4u), (push.terms + CHUNK - 1u) / CHUNK);
        uint in_chunk = quad % (CHUNK / 4u);
        uint integers = block_integers(at, in_chunk);
        uint block = in_chunk / (BLOCK / 4u);
        uint group = in_chunk % (BLOCK / 4u) / (GROUP / 4u);
        vec2 factors = block_factors(at, block);
        precise float scale = hlx_mul(factors.x, float(block_scale(at, group)));
        precise float least = HAS_MINS ? hlx_mul(factors.y, float(block_min(at, group))) : 0.0;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            int q = bitfieldExtract(int(integers), int(8u * j), 8) - int(OFFSET);
            values[j] = hlx_sub(hlx_mul(scale, float(q)), least);
        }
    }
    y[i] = values;
}
