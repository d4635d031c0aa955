// RMS norm backward, input, of rows held in registers; formula and order are those of
// backward_input.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_REDUCTIONS 1
#include "../include/held_row.glsl"

layout(constant_id = 4) const uint RESIDUAL = 0u;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly restrict buffer Stats { float stats[]; };
layout(set = 0, binding = 3) readonly restrict buffer DY { float dy[]; };
layout(set = 0, binding = 4) readonly restrict buffer Residual { float residual[]; };
layout(set = 0, binding = 5) writeonly restrict buffer DX { float dx[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;  // cols = COLS

void main() {
    uint row = hlx_row(push.rows);
    uint base = row * COLS;
    precise float normal[HLX_HELD];
    precise float g[HLX_HELD];
    HLX_EACH(i) if (hlx_has(i)) {
        normal[i] = x[base + hlx_col(i)];
        g[i] = dy[base + hlx_col(i)];
    }
    precise float rstd = stats[row];
    HLX_START(lanes, 0.0)
    HLX_EACH(i) if (hlx_has(i)) {
        g[i] = hlx_mul(g[i], weight[hlx_col(i)]);
        normal[i] = hlx_mul(normal[i], rstd);
        lanes[HLX_LANE(i)] = hlx_add(lanes[HLX_LANE(i)], hlx_mul(g[i], normal[i]));
    }
    precise float b = hlx_div(hlx_reduce(lanes, 0u, false), float(COLS));
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i)) {
        precise float value = hlx_mul(rstd, hlx_sub(g[i], hlx_mul(normal[i], b)));
        if (RESIDUAL != 0u) value = hlx_add(residual[base + hlx_col(i)], value);
        dx[base + hlx_col(i)] = value;
    }
}
