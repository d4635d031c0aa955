// The frame of an optimizer: four elements per thread, the last count % 4 one by one; all one by one
// where fma is emulated, which spares software drivers four copies of the step. A negative clip factor
// skips the step: nothing is written.
//
// Included last. The shader includes hyper.glsl, defines HLX_STATES, the number of the state's
// buffers (0 to 3), and the step of one element, whose numbers begin at hyper[at]:
//   void advance(uint at, float gradient, inout float p, inout float a, inout float b, inout float c)

layout(local_size_x = 256) in;

HLX_VIEWS(0, readonly restrict, float, Gradient, g)
HLX_VIEWS(4, restrict, float, Parameter, p)

// DO for each of the state's buffers.
#if HLX_STATES == 0
#define EACH_STATE(DO)
#elif HLX_STATES == 1
#define EACH_STATE(DO) DO(5, First, a)
#elif HLX_STATES == 2
#define EACH_STATE(DO) DO(5, First, a) DO(6, Second, b)
#else
#define EACH_STATE(DO) DO(5, First, a) DO(6, Second, b) DO(7, Third, c)
#endif
#define DECLARE(place, X, x) HLX_VIEWS(place, restrict, float, X, x)
#define LOAD_FOUR(place, X, x) x = x##4[i];
#define LOAD_ONE(place, X, x) x = x##1[i];
#define STORE_FOUR(place, X, x) x##4[i] = x;
#define STORE_ONE(place, X, x) x##1[i] = x;

EACH_STATE(DECLARE)

void step_four(uint i) {
    uint at = numbers_of(4u * i);
    if (at == SKIPPED) return;
    precise vec4 g = g4[i];
    precise vec4 p = p4[i];
    precise vec4 a = vec4(0.0);
    precise vec4 b = vec4(0.0);
    precise vec4 c = vec4(0.0);
    EACH_STATE(LOAD_FOUR)
    [[unroll]] for (uint j = 0u; j < 4u; ++j) advance(at, g[j], p[j], a[j], b[j], c[j]);
    p4[i] = p;
    EACH_STATE(STORE_FOUR)
}

void step_one(uint i) {
    uint at = numbers_of(i);
    if (at == SKIPPED) return;
    precise float p = p1[i];
    precise float a = 0.0;
    precise float b = 0.0;
    precise float c = 0.0;
    EACH_STATE(LOAD_ONE)
    advance(at, g1[i], p, a, b, c);
    p1[i] = p;
    EACH_STATE(STORE_ONE)
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
