// Softmax backward of rows held in registers; formula and order are those of backward.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_REDUCTIONS 1
#include "../include/held_row.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Y { float y[]; };
layout(set = 0, binding = 1) readonly restrict buffer DY { float dy[]; };
layout(set = 0, binding = 2) writeonly restrict buffer DX { float dx[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;  // cols = COLS

void main() {
    uint base = hlx_row(push.rows) * COLS;
    precise float p[HLX_HELD];
    precise float d[HLX_HELD];
    HLX_EACH(i) if (hlx_has(i)) {
        p[i] = y[base + hlx_col(i)];
        d[i] = dy[base + hlx_col(i)];
    }
    HLX_START(lanes, 0.0)
    HLX_EACH(i) if (hlx_has(i)) lanes[HLX_LANE(i)] = hlx_add(lanes[HLX_LANE(i)], hlx_mul(p[i], d[i]));
    precise float inner = hlx_reduce(lanes, 0u, false);
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i)) dx[base + hlx_col(i)] = hlx_mul(p[i], hlx_sub(d[i], inner));
}
