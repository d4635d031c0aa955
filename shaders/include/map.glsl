// The frame of a kernel whose elements are independent: y[i] = apply(x[i]), four elements a thread.
//
// A shader includes arith.glsl (and math.glsl), may define one of
//   HLX_BINARY    two inputs:  y[i] = apply(x[i], b[i])
//   HLX_IN_PLACE  y is read:   y[i] = apply(x[i], y[i])
// includes this file, and then defines apply. Bindings: x, (b,) y; a buffer that is the same for
// all elements follows at HLX_NEXT_BINDING. push.scalar is the kernel's own parameter.
//
// Vectors of four where they are whole; the last count % 4 elements go one by one through a
// second view of the same bindings. Where fma is emulated all of them do: one copy of apply
// instead of five, and software drivers compile it that much sooner.
#ifndef HLX_MAP_GLSL
#define HLX_MAP_GLSL

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint count;
    float scalar;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X4 { vec4 x4[]; };
layout(set = 0, binding = 0) readonly restrict buffer X1 { float x1[]; };
#ifdef HLX_BINARY
layout(set = 0, binding = 1) readonly restrict buffer B4 { vec4 b4[]; };
layout(set = 0, binding = 1) readonly restrict buffer B1 { float b1[]; };
#define HLX_OUT 2
#define HLX_NEXT_BINDING 3
#else
#define HLX_OUT 1
#define HLX_NEXT_BINDING 2
#endif
layout(set = 0, binding = HLX_OUT) restrict buffer Y4 { vec4 y4[]; };
layout(set = 0, binding = HLX_OUT) restrict buffer Y1 { float y1[]; };

#if defined(HLX_BINARY)
float apply(float x, float b);
#define HLX_APPLY(x, b, y) apply(x, b)
#elif defined(HLX_IN_PLACE)
float apply(float x, float y);
#define HLX_APPLY(x, b, y) apply(x, y)
#else
float apply(float x);
#define HLX_APPLY(x, b, y) apply(x)
#endif

void main() {
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (HLX_NATIVE_FMA != 0u && i < push.count >> 2) {
        precise vec4 x = x4[i];
        precise vec4 b = vec4(0.0);
        precise vec4 y = vec4(0.0);
#if defined(HLX_BINARY)
        b = b4[i];
#elif defined(HLX_IN_PLACE)
        y = y4[i];
#endif
        y4[i] = vec4(HLX_APPLY(x.x, b.x, y.x), HLX_APPLY(x.y, b.y, y.y),
                     HLX_APPLY(x.z, b.z, y.z), HLX_APPLY(x.w, b.w, y.w));
        return;
    }
    uint end = min(4u * i + 4u, push.count);
    for (uint e = 4u * i; e < end; ++e) y1[e] = HLX_APPLY(x1[e], b1[e], y1[e]);
}

#endif
