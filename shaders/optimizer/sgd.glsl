// Stochastic gradient descent, as torch.optim.SGD (dampening 0, no Nesterov):
//   d = clip g + lambda p;   with HLX_MOMENTUM: m = mu m + d, d = m;   p = p - lr d.

layout(local_size_x = 256) in;

layout(push_constant) uniform Push { uint count; } push;

layout(set = 0, binding = 0) readonly restrict buffer Gradient4 { vec4 g4[]; };
layout(set = 0, binding = 0) readonly restrict buffer Gradient1 { float g1[]; };
layout(set = 0, binding = 3) restrict buffer Parameter4 { vec4 p4[]; };
layout(set = 0, binding = 3) restrict buffer Parameter1 { float p1[]; };
#ifdef HLX_MOMENTUM
layout(set = 0, binding = 4) restrict buffer Momentum4 { vec4 m4[]; };
layout(set = 0, binding = 4) restrict buffer Momentum1 { float m1[]; };
#endif

// The element's direction d; m is its momentum, if there is one.
float direction(float g, float p, float m) {
    precise float d = hlx_fma(WEIGHT_DECAY, p, hlx_mul(CLIP, g));
#ifdef HLX_MOMENTUM
    d = hlx_fma(MOMENTUM, m, d);
#endif
    return d;
}

void step_four(uint i) {
    precise vec4 g = g4[i];
    precise vec4 p = p4[i];
    precise vec4 m = vec4(0.0);
#ifdef HLX_MOMENTUM
    m = m4[i];
#endif
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        m[j] = direction(g[j], p[j], m[j]);
        p[j] = hlx_fma(NEGATIVE_RATE, m[j], p[j]);
    }
#ifdef HLX_MOMENTUM
    m4[i] = m;
#endif
    p4[i] = p;
}

void step_one(uint i) {
    precise float m = 0.0;
#ifdef HLX_MOMENTUM
    m = m1[i];
#endif
    m = direction(g1[i], p1[i], m);
#ifdef HLX_MOMENTUM
    m1[i] = m;
#endif
    p1[i] = hlx_fma(NEGATIVE_RATE, m, p1[i]);
}
