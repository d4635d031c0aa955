// The frame of a kernel whose elements are independent: y[i] = apply(x[i]), HLX_VECTORS x 4 elements per thread.
//
// A shader may define one of
//   HLX_BINARY    two inputs:  y[i] = apply(x[i], b[i])
//   HLX_IN_PLACE  y is read:   y[i] = apply(x[i], y[i])
//   HLX_ALONE     no input:    y[i] = apply(y[i])
// includes this file, and then defines apply. Bindings: (x,) (b,) y; a buffer that is the same for
// all elements follows at HLX_NEXT_BINDING. push.scalar is the kernel's own parameter.
//
// Vectors of four where they are whole; the last count % 4 elements go one by one through a
// second view of the same bindings. Where fma is emulated all of them do: one copy of apply
// instead of five, and software drivers compile it that much sooner.
#include "arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint count;
    float scalar;
} push;

#ifndef HLX_ALONE
HLX_VIEWS(0, readonly restrict, float, X, x)
#endif
#if defined(HLX_BINARY)
HLX_VIEWS(1, readonly restrict, float, B, b)
#define HLX_OUT 2
#define HLX_NEXT_BINDING 3
#elif defined(HLX_ALONE)
#define HLX_OUT 0
#define HLX_NEXT_BINDING 1
#else
#define HLX_OUT 1
#define HLX_NEXT_BINDING 2
#endif
HLX_VIEWS(HLX_OUT, restrict, float, Y, y)

#if defined(HLX_BINARY)
float apply(float x, float b);
#define HLX_APPLY(x, b, y) apply(x, b)
#elif defined(HLX_IN_PLACE)
float apply(float x, float y);
#define HLX_APPLY(x, b, y) apply(x, y)
#elif defined(HLX_ALONE)
float apply(float y);
#define HLX_APPLY(x, b, y) apply(y)
#else
float apply(float x);
#define HLX_APPLY(x, b, y) apply(x)
#endif

// Vectors of a thread, 256 apart; the loads of two are under way together. Large tensors take two
// (GELU of 2^26 elements on an H200: 133 us instead of 143), small ones rather fill the device.
layout(constant_id = 999) const uint HLX_VECTORS = 1u;

void hlx_apply_vectors(uint first, uint end) {
    precise vec4 x[HLX_VECTORS];
    precise vec4 b[HLX_VECTORS];
    precise vec4 y[HLX_VECTORS];
    [[unroll]] for (uint v = 0u; v < HLX_VECTORS; ++v) {
        uint i = min(first + 256u * v, end - 1u);
#ifndef HLX_ALONE
        x[v] = x4[i];
#endif
#if defined(HLX_BINARY)
        b[v] = b4[i];
#elif defined(HLX_IN_PLACE) || defined(HLX_ALONE)
        y[v] = y4[i];
#endif
    }
    [[unroll]] for (uint v = 0u; v < HLX_VECTORS; ++v)
        if (first + 256u * v < end)
            y4[first + 256u * v] =
                vec4(HLX_APPLY(x[v].x, b[v].x, y[v].x), HLX_APPLY(x[v].y, b[v].y, y[v].y),
                     HLX_APPLY(x[v].z, b[v].z, y[v].z), HLX_APPLY(x[v].w, b[v].w, y[v].w));
}

// 1 where the count is a multiple of four: without the code for single elements GELU of 2^26
// takes an H200 136 us instead of 146.
layout(constant_id = 998) const uint HLX_WHOLE = 0u;

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint first = hlx_group() * 256u * HLX_VECTORS + thread;
    uint vectors = HLX_NATIVE_FMA != 0u ? push.count >> 2 : 0u;
    if (HLX_NATIVE_FMA != 0u && first < vectors) hlx_apply_vectors(first, vectors);
    if (HLX_NATIVE_FMA != 0u && HLX_WHOLE != 0u) return;
    // What is no whole vector; all of it where fma is emulated.
    uint begin = max(4u * vectors, hlx_group() * 1024u * HLX_VECTORS);
    uint end = min((hlx_group() + 1u) * 1024u * HLX_VECTORS, push.count);
    for (uint e = begin + thread; e < end; e += 256u) y1[e] = HLX_APPLY(x1[e], b1[e], y1[e]);
}
