// The frame of an optimizer: four elements a thread, the last count % 4 one by one; all one by one
// where fma is emulated, which spares software drivers four copies of the step. A negative clip factor
// skips the step: nothing is written.
//
// Included last. The shader includes hyper.glsl, defines HLX_STATES, the number of the state's
// buffers (0 to 3), and the step of one element, whose numbers begin at hyper[at]:
//   void advance(uint at, float gradient, inout float p, inout float a, inout float b, inout float c)

layout(local_size_x = 256) in;

layout(set = 0, binding = 0) readonly restrict buffer Gradient4 { vec4 g4[]; };
layout(set = 0, binding = 0) readonly restrict buffer Gradient1 { float g1[]; };
layout(set = 0, binding = 4) restrict buffer Parameter4 { vec4 p4[]; };
layout(set = 0, binding = 4) restrict buffer Parameter1 { float p1[]; };
#if HLX_STATES > 0
layout(set = 0, binding = 5) restrict buffer First4 { vec4 a4[]; };
layout(set = 0, binding = 5) restrict buffer First1 { float a1[]; };
#endif
#if HLX_STATES > 1
layout(set = 0, binding = 6) restrict buffer Second4 { vec4 b4[]; };
layout(set = 0, binding = 6) restrict buffer Second1 { float b1[]; };
#endif
#if HLX_STATES > 2
layout(set = 0, binding = 7) restrict buffer Third4 { vec4 c4[]; };
layout(set = 0, binding = 7) restrict buffer Third1 { float c1[]; };
#endif

void step_four(uint i) {
    uint at = numbers_of(4u * i);
    if (at == SKIPPED) return;
    precise vec4 g = g4[i];
    precise vec4 p = p4[i];
    precise vec4 a = vec4(0.0);
    precise vec4 b = vec4(0.0);
    precise vec4 c = vec4(0.0);
#if HLX_STATES > 0
    a = a4[i];
#endif
#if HLX_STATES > 1
    b = b4[i];
#endif
#if HLX_STATES > 2
    c = c4[i];
#endif
    [[unroll]] for (uint j = 0u; j < 4u; ++j) advance(at, g[j], p[j], a[j], b[j], c[j]);
    p4[i] = p;
#if HLX_STATES > 0
    a4[i] = a;
#endif
#if HLX_STATES > 1
    b4[i] = b;
#endif
#if HLX_STATES > 2
    c4[i] = c;
#endif
}

void step_one(uint i) {
    uint at = numbers_of(i);
    if (at == SKIPPED) return;
    precise float p = p1[i];
    precise float a = 0.0;
    precise float b = 0.0;
    precise float c = 0.0;
#if HLX_STATES > 0
    a = a1[i];
#endif
#if HLX_STATES > 1
    b = b1[i];
#endif
#if HLX_STATES > 2
    c = c1[i];
#endif
    advance(at, g1[i], p, a, b, c);
    p1[i] = p;
#if HLX_STATES > 0
    a1[i] = a;
#endif
#if HLX_STATES > 1
    b1[i] = b;
#endif
#if HLX_STATES > 2
    c1[i] = c;
#endif
}

void main() {
    if (clip[0] < 0.0) return;
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (HLX_NATIVE_FMA != 0u && i < push.count >> 2) {
        step_four(i);
        return;
    }
    uint end = min(4u * i + 4u, push.count);
    for (uint e = 4u * i; e < end; ++e) step_one(e);
}
