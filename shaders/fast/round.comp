// Numbers rounded to 16 bits for a product, in lines of whole units of 16 bytes:
//   y[line, column] = half(x[line, column]), zeros from `columns` to the end of the line's last unit.
// A thread has a unit.
#include "../include/convert.glsl"

layout(local_size_x = 256) in;

// The type, by its number.
layout(constant_id = 0) const uint TYPE = HLX_BF16;
// `columns` is a multiple of four.
layout(constant_id = 1) const bool VECTORS = false;
// `columns` is a multiple of eight: lines follow each other without a gap.
layout(constant_id = 2) const bool WHOLE = false;

layout(push_constant) uniform Push {
    uint units;  // of all lines
    uint per_line, columns;
} push;

HLX_WITH_VECTORS(0, readonly restrict, uint, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Y { uvec4 y[]; };

uint half_of(uint bits) { return TYPE == HLX_F16 ? hlx_f16_of_float(bits) : hlx_bf16_of_float(bits); }

void main() {
    uint unit = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (unit >= push.units) return;
    uvec4 of[2];
    if (WHOLE) {
        [[unroll]] for (uint i = 0u; i < 2u; ++i) of[i] = x_vectors[2u * unit + i];
    } else {
        uint line = unit / push.per_line;
        uint column = unit % push.per_line * 8u;
        uint first = line * push.columns;
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            uint at = column + 4u * i;
            of[i] = uvec4(0u);
            if (VECTORS) {
                if (at < push.columns) of[i] = x_vectors[(first + at) / 4u];
            } else {
                [[unroll]] for (uint l = 0u; l < 4u; ++l)
                    if (at + l < push.columns) of[i][l] = x[first + at + l];
            }
        }
    }
    uvec4 packed;
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
        packed[i] = half_of(of[i / 2u][i % 2u * 2u]) | half_of(of[i / 2u][i % 2u * 2u + 1u]) << 16;
    y[unit] = packed;
}
