// Softmax forward of rows held in registers; formula and order are those of forward.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_REDUCTIONS 2
#include "../include/held_row.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { float y[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;  // cols = COLS

void main() {
    uint base = hlx_row(push.rows) * COLS;
    precise float v[HLX_HELD];
    HLX_EACH(i) {
        v[i] = HLX_LOWEST;
        if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
    }
    // A NaN may get lost here, but not in the sum, which makes the whole row NaN.
    HLX_START(tops, HLX_LOWEST)
    HLX_EACH(i) tops[HLX_LANE(i)] = tops[HLX_LANE(i)] > v[i] ? tops[HLX_LANE(i)] : v[i];
    precise float top = hlx_reduce(tops, 0u, true);

    HLX_START(lanes, 0.0)
    HLX_EACH(i) {
        v[i] = hlx_exp(hlx_sub(v[i], top));
        if (hlx_has(i)) lanes[HLX_LANE(i)] = hlx_add(lanes[HLX_LANE(i)], v[i]);
    }
    precise float inverse = hlx_div(1.0, hlx_reduce(lanes, 1u, false));
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i)) y[base + hlx_col(i)] = hlx_mul(v[i], inverse);
}
