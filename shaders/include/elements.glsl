// The frame of kernels over typed, strided operands: out[i] = apply(a[i], b[i], c[i]) for the
// elements of the operands in row-major order, out contiguous; 4 x HLX_VECTORS elements a thread.
//
// A shader defines HLX_OPERANDS (1 to 3), includes this file, and defines apply over words of the
// compute type; its parameters are push.parameters. Whoever stores a type of two bytes or one
// stores whole words; the spare bytes of the last are zero.
#ifndef HLX_ELEMENTS_GLSL
#define HLX_ELEMENTS_GLSL

#if HLX_OPERANDS == 3
#define HLX_DIMENSIONS 7
#else
#define HLX_DIMENSIONS 8
#define HLX_PARAMETERS 2
#endif
#include "convert.glsl"
#include "walk.glsl"

layout(local_size_x = 256) in;

// Ids of hlx_core::DType (and HLX_RAW16): of the arithmetic, of the output, of the operands.
layout(constant_id = 992) const uint COMPUTE = HLX_F32;
layout(constant_id = 980) const uint OUT_TYPE = HLX_F32;
layout(constant_id = 981) const uint A_TYPE = HLX_F32;
layout(constant_id = 982) const uint B_TYPE = HLX_F32;
layout(constant_id = 983) const uint C_TYPE = HLX_F32;
// How an operand's four elements lie: anywhere, behind each other from a multiple of four on, or
// all in one place.
const uint HLX_APART = 0u;
const uint HLX_VECTOR = 1u;
const uint HLX_SAME = 2u;
layout(constant_id = 985) const uint A_ACCESS = HLX_VECTOR;
layout(constant_id = 986) const uint B_ACCESS = HLX_VECTOR;
layout(constant_id = 987) const uint C_ACCESS = HLX_VECTOR;
// As in map.glsl: 1 where the count is a multiple of four, and the vectors of a thread.
layout(constant_id = 998) const uint HLX_WHOLE = 0u;
layout(constant_id = 999) const uint HLX_VECTORS = 1u;

#define HLX_BUFFER(BINDING, B1, B2, B4, ONE, TWO, FOUR)                                        \
    layout(set = 0, binding = BINDING) readonly restrict buffer B1 { uint ONE[]; };             \
    layout(set = 0, binding = BINDING) readonly restrict buffer B2 { uvec2 TWO[]; };            \
    layout(set = 0, binding = BINDING) readonly restrict buffer B4 { uvec4 FOUR[]; };

HLX_BUFFER(0, A1, A2, A4, a1, a2, a4)
#if HLX_OPERANDS > 1
HLX_BUFFER(1, B1, B2, B4, b1, b2, b4)
#endif
#if HLX_OPERANDS > 2
HLX_BUFFER(2, C1, C2, C4, c1, c2, c4)
#endif
layout(set = 0, binding = HLX_OPERANDS) writeonly restrict buffer Out1 { uint out1[]; };
layout(set = 0, binding = HLX_OPERANDS) writeonly restrict buffer Out2 { uvec2 out2[]; };
layout(set = 0, binding = HLX_OPERANDS) writeonly restrict buffer Out4 { uvec4 out4[]; };

#if HLX_OPERANDS == 1
uint apply(uint a);
#define HLX_APPLY(j) apply(value[0][j])
#elif HLX_OPERANDS == 2
uint apply(uint a, uint b);
#define HLX_APPLY(j) apply(value[0][j], value[1][j])
#else
uint apply(uint a, uint b, uint c);
#define HLX_APPLY(j) apply(value[0][j], value[1][j], value[2][j])
#endif

// The words that hold the four elements of operand K.
#define HLX_LOAD(K, ONE, TWO, FOUR, TYPE, ACCESS)                                               \
    if (ACCESS == HLX_VECTOR && n == 4u) {                                                      \
        uint at = place[0][K] >> 2;                                                             \
        if (hlx_shift(TYPE) == 0u) value[K] = FOUR[at];                                         \
        else if (hlx_shift(TYPE) == 1u) value[K] = TWO[at].xxyy;                                \
        else value[K] = uvec4(ONE[at]);                                                         \
    } else if (ACCESS == HLX_SAME) {                                                            \
        value[K] = uvec4(ONE[place[0][K] >> hlx_shift(TYPE)]);                                  \
    } else {                                                                                    \
        [[unroll]] for (uint j = 0u; j < 4u; ++j)                                               \
            value[K][j] = ONE[place[j][K] >> hlx_shift(TYPE)];                                  \
    }

// The words become values of the compute type.
#define HLX_DECODE(K, TYPE)                                                                     \
    [[unroll]] for (uint j = 0u; j < 4u; ++j)                                                   \
        value[K][j] = hlx_decode(TYPE, COMPUTE, value[K][j], place[j][K]);

uint hlx_count(uint quad) { return HLX_WHOLE != 0u ? 4u : min(4u, push.count - 4u * quad); }

void hlx_load_quad(uint quad, out uvec4 value[HLX_OPERANDS]) {
    uint n = hlx_count(quad);
    uvec3 place[4];
    hlx_quad_places(4u * quad, n, place);
    HLX_LOAD(0, a1, a2, a4, A_TYPE, A_ACCESS)
    HLX_DECODE(0, A_TYPE)
#if HLX_OPERANDS > 1
    HLX_LOAD(1, b1, b2, b4, B_TYPE, B_ACCESS)
    HLX_DECODE(1, B_TYPE)
#endif
#if HLX_OPERANDS > 2
    HLX_LOAD(2, c1, c2, c4, C_TYPE, C_ACCESS)
    HLX_DECODE(2, C_TYPE)
#endif
}

// Where fma is emulated there is one copy of apply, which software drivers compile sooner.
uvec4 hlx_apply_quad(uvec4 value[HLX_OPERANDS], uint n) {
    if (HLX_NATIVE_FMA != 0u)
        return uvec4(HLX_APPLY(0), HLX_APPLY(1), HLX_APPLY(2), HLX_APPLY(3));
    uvec4 result = uvec4(0u);
    for (uint j = 0u; j < n; ++j) result[j] = HLX_APPLY(j);
    return result;
}

void hlx_store_quad(uint quad, uvec4 value) {
    uint n = hlx_count(quad);
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

void main() {
    uint quads = (push.count >> 2) + ((push.count & 3u) != 0u ? 1u : 0u);
    uint first = hlx_group() * 256u * HLX_VECTORS + gl_LocalInvocationID.x;
    if (first >= quads) return;
    uvec4 value[HLX_VECTORS][HLX_OPERANDS];
    [[unroll]] for (uint v = 0u; v < HLX_VECTORS; ++v)
        hlx_load_quad(min(first + 256u * v, quads - 1u), value[v]);
    [[unroll]] for (uint v = 0u; v < HLX_VECTORS; ++v) {
        uint quad = first + 256u * v;
        if (quad < quads) hlx_store_quad(quad, hlx_apply_quad(value[v], hlx_count(quad)));
    }
}

#endif
