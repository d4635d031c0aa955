// The frame of kernels over typed, strided operands: out[i] = apply(a[i], b[i], c[i]) for the
// elements of the operands in row-major order, out contiguous; 4 x HLX_VECTORS elements per thread.
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

// DO for each operand: its number, and the stems of its names. HLX_APPLY is the result of element j.
#if HLX_OPERANDS == 1
#define HLX_EACH_OPERAND(DO) DO(0, A, a)
#define HLX_APPLY(j) apply(value[0][j])
uint apply(uint a);
#elif HLX_OPERANDS == 2
#define HLX_EACH_OPERAND(DO) DO(0, A, a) DO(1, B, b)
#define HLX_APPLY(j) apply(value[0][j], value[1][j])
uint apply(uint a, uint b);
#else
#define HLX_EACH_OPERAND(DO) DO(0, A, a) DO(1, B, b) DO(2, C, c)
#define HLX_APPLY(j) apply(value[0][j], value[1][j], value[2][j])
uint apply(uint a, uint b, uint c);
#endif

#define HLX_DECLARE(K, X, x)                                                                    \
    layout(set = 0, binding = K) readonly restrict buffer X##1 { uint x##1[]; };                \
    layout(set = 0, binding = K) readonly restrict buffer X##2 { uvec2 x##2[]; };               \
    layout(set = 0, binding = K) readonly restrict buffer X##4 { uvec4 x##4[]; };

HLX_EACH_OPERAND(HLX_DECLARE)

// The words that hold the four elements of operand K, which become values of the compute type.
#define HLX_LOAD(K, X, x)                                                                       \
    if (X##_ACCESS == HLX_VECTOR && n == 4u) {                                                  \
        uint at = place[0][K] >> 2;                                                             \
        if (hlx_shift(X##_TYPE) == 0u) value[K] = x##4[at];                                     \
        else if (hlx_shift(X##_TYPE) == 1u) value[K] = x##2[at].xxyy;                           \
        else value[K] = uvec4(x##1[at]);                                                        \
    } else if (X##_ACCESS == HLX_SAME) {                                                        \
        value[K] = uvec4(x##1[place[0][K] >> hlx_shift(X##_TYPE)]);                             \
    } else {                                                                                    \
        [[unroll]] for (uint j = 0u; j < 4u; ++j)                                               \
            value[K][j] = x##1[place[j][K] >> hlx_shift(X##_TYPE)];                             \
    }                                                                                           \
    [[unroll]] for (uint j = 0u; j < 4u; ++j)                                                   \
        value[K][j] = hlx_decode(X##_TYPE, COMPUTE, value[K][j], place[j][K]);

void hlx_load_quad(uint quad, out uvec4 value[HLX_OPERANDS]) {
    uint n = hlx_left(quad, push.count);
    uvec3 place[4];
    hlx_quad_places(4u * quad, n, place);
    HLX_EACH_OPERAND(HLX_LOAD)
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
