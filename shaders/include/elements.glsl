// The frame of kernels over typed, strided operands: out[i] = apply(a[i], b[i], c[i]) for the
// elements of the operands in row-major order, out contiguous; 4 x HLX_VECTORS elements a thread.
//
// A shader defines HLX_OPERANDS (1 to 3), includes this file, and defines apply over words of the
// compute type; its parameters are push.parameters. Whoever stores a type of two bytes or one
// stores whole words; the spare bytes of the last are zero.

#if HLX_OPERANDS == 3
#define HLX_DIMENSIONS 7
#else
#define HLX_DIMENSIONS 8
#define HLX_PARAMETERS 2
#endif
#define HLX_OUT HLX_OPERANDS
#include "stored.glsl"
#include "walk.glsl"

layout(local_size_x = 256) in;

// Ids of hlx_core::DType (and HLX_RAW16), of the operands; stored.glsl has the others.
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
// As in map.glsl: the vectors of a thread.
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

void hlx_load_quad(uint quad, out uvec4 value[HLX_OPERANDS]) {
    uint n = hlx_left(quad, push.count);
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

void main() {
    uint quads = hlx_quads(push.count);
    uint first = hlx_group() * 256u * HLX_VECTORS + gl_LocalInvocationID.x;
    if (first >= quads) return;
    uvec4 value[HLX_VECTORS][HLX_OPERANDS];
    [[unroll]] for (uint v = 0u; v < HLX_VECTORS; ++v)
        hlx_load_quad(min(first + 256u * v, quads - 1u), value[v]);
    [[unroll]] for (uint v = 0u; v < HLX_VECTORS; ++v) {
        uint quad = first + 256u * v;
        if (quad < quads) {
            uint n = hlx_left(quad, push.count);
            hlx_store_quad(quad, n, hlx_apply_quad(value[v], n));
        }
    }
}
