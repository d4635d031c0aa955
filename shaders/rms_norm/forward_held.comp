// RMS norm forward of rows held in registers; formula and order are those of forward.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_REDUCTIONS 1
#include "../include/held_row.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Y { float y[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Stats { float stats[]; };
layout(push_constant) uniform Push { uint rows; uint cols; float eps; } push;  // cols = COLS

#define HELD
#include "statistics.glsl"

void main() {
    uint row = hlx_row(push.rows);
    uint base = row * COLS;
    precise float v[HLX_HELD];
    precise float rstd = statistics(base, v);
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i))
        y[base + hlx_col(i)] = hlx_mul(hlx_mul(v[i], rstd), weight[hlx_col(i)]);
    if (hlx_row_thread() == 0u) stats[row] = rstd;
}
