// Numbers rounded to 16 bits for a product, in lines of whole units of 16 bytes:
//   y[line, column] = half(x[line, column]), zeros from `columns` to the end of the line's last unit,
// of x or what ../integer/source.glsl computes from it. A thread has a unit.
#include "../include/convert.glsl"
#define SOURCE_BINDING 2
#include "../integer/source.glsl"

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

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Y { uvec4 y[]; };

uint half_of(uint bits) { return TYPE == HLX_F16 ? hlx_f16_of_float(bits) : hlx_bf16_of_float(bits); }

void main() {
    uint unit = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (unit >= push.units) return;
#if defined(OF_LAYER_NORM) || defined(OF_RMS_NORM)
    const bool HAS_PLACE = true;
#else
    const bool HAS_PLACE = !WHOLE;
#endif
    uint line = HAS_PLACE ? unit / push.per_line : 0u;
    uint column = HAS_PLACE ? unit % push.per_line * 8u : 0u;
    uint first = WHOLE ? unit * 8u : line * push.columns + column;
    vec4 of[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint at = first + 4u * i;
        of[i] = vec4(0.0);
        if (WHOLE || VECTORS) {
            if (!HAS_PLACE || column + 4u * i < push.columns) of[i] = x_vectors[at / 4u];
        } else {
            [[unroll]] for (uint l = 0u; l < 4u; ++l)
                if (column + 4u * i + l < push.columns) of[i][l] = x[at + l];
        }
        of[i] = of_source4(of[i], line, column + 4u * i, HAS_PLACE ? push.columns : 8u, at);
    }
    uvec4 packed;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        vec2 pair = vec2(of[i / 2u][i % 2u * 2u], of[i / 2u][i % 2u * 2u + 1u]);
        packed[i] = half_of(floatBitsToUint(pair.x)) | half_of(floatBitsToUint(pair.y)) << 16;
    }
    y[unit] = packed;
}
