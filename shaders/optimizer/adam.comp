// Adam and AdamW, as torch.optim.Adam and AdamW (no amsgrad):
//   g = clip g;   Adam: g = g + lambda p;   AdamW: p = (1 - lr lambda) p
//   m = m + (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "hyper.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DECOUPLED = 0u;  // 1: AdamW

layout(push_constant) uniform Push { uint count; } push;

layout(set = 0, binding = 0) readonly restrict buffer Gradient4 { vec4 g4[]; };
layout(set = 0, binding = 0) readonly restrict buffer Gradient1 { float g1[]; };
layout(set = 0, binding = 3) restrict buffer Parameter4 { vec4 p4[]; };
layout(set = 0, binding = 3) restrict buffer Parameter1 { float p1[]; };
layout(set = 0, binding = 4) restrict buffer First4 { vec4 m4[]; };
layout(set = 0, binding = 4) restrict buffer First1 { float m1[]; };
layout(set = 0, binding = 5) restrict buffer Second4 { vec4 v4[]; };
layout(set = 0, binding = 5) restrict buffer Second1 { float v1[]; };

void advance(float gradient, inout float p, inout float m, inout float v) {
    precise float g = hlx_mul(CLIP, gradient);
    if (DECOUPLED == 0u) g = hlx_fma(WEIGHT_DECAY, p, g);
    else p = hlx_mul(KEEP, p);
    m = hlx_fma(ONE_MINUS_BETA1, hlx_sub(g, m), m);
    v = hlx_fma(hlx_mul(ONE_MINUS_BETA2, g), g, hlx_mul(BETA2, v));
    precise float denominator = hlx_fma(hlx_sqrt(v), INVERSE_ROOT, EPSILON);
    p = hlx_fma(NEGATIVE_STEP, hlx_div(m, denominator), p);
}

void step_four(uint i) {
    precise vec4 g = g4[i];
    precise vec4 p = p4[i];
    precise vec4 m = m4[i];
    precise vec4 v = v4[i];
    [[unroll]] for (uint j = 0u; j < 4u; ++j) advance(g[j], p[j], m[j], v[j]);
    p4[i] = p;
    m4[i] = m;
    v4[i] = v;
}

void step_one(uint i) { advance(g1[i], p1[i], m1[i], v1[i]); }

#include "step.glsl"
