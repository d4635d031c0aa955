// Values of the compute type stored as elements of a contiguous output of any type, four at a time.
//
// A shader defines HLX_OUT, the output's binding. Whoever stores a type of two bytes or one
// stores whole words; the spare bytes of the last are zero.
#include "convert.glsl"

// Ids of hlx_core::DType (and HLX_RAW16): of the arithmetic and of the output.
layout(constant_id = 992) const uint COMPUTE = HLX_F32;
layout(constant_id = 980) const uint OUT_TYPE = HLX_F32;
// As in map.glsl: 1 where the count is a multiple of four.
layout(constant_id = 998) const uint HLX_WHOLE = 0u;

layout(set = 0, binding = HLX_OUT) writeonly restrict buffer Out1 { uint out1[]; };
layout(set = 0, binding = HLX_OUT) writeonly restrict buffer Out2 { uvec2 out2[]; };
layout(set = 0, binding = HLX_OUT) writeonly restrict buffer Out4 { uvec4 out4[]; };

// The groups of four that hold `count` elements, and the elements of one of them.
uint hlx_quads(uint count) { return (count >> 2) + ((count & 3u) != 0u ? 1u : 0u); }
uint hlx_left(uint quad, uint count) { return HLX_WHOLE != 0u ? 4u : min(4u, count - 4u * quad); }

// Stores the first n of four values as elements from 4 * quad on.
void hlx_store_quad(uint quad, uint n, uvec4 value) {
    uvec4 bits;
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        bits[j] = j < n ? hlx_encode(OUT_TYPE, COMPUTE, value[j]) : 0u;
    if (hlx_shift(OUT_TYPE) == 2u) {
        out1[quad] = bits.x | (bits.y << 8) | (bits.z << 16) | (bits.w << 24);
    } else if (hlx_shift(OUT_TYPE) == 1u) {
        uvec2 words = uvec2(bits.x | (bits.y << 16), bits.z | (bits.w << 16));
        if (n > 2u) out2[quad] = words;
        else out1[2u * quad] = words.x;
    } else if (n == 4u) {
        out4[quad] = bits;
    } else {
        for (uint j = 0u; j < n; ++j) out1[4u * quad + j] = bits[j];
    }
}
