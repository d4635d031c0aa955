// Numbers rounded to 16 bits for a product, in lines of whole units of 16 bytes:
//   y[line, column] = half(x[line, column]), zeros from `columns` to the end of the line's last unit,
// of x or what ../integer/source.glsl computes from it. A thread has a unit.
#define HALF_TYPE 0
#include "../include/rounded.glsl"
#define SOURCE_BINDING 2
#include "../integer/source.glsl"

layout(local_size_x = 256) in;

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
    y[unit] = uvec4(halves_of(of[0].xy), halves_of(of[0].zw), halves_of(of[1].xy), halves_of(of[1].zw));
}
