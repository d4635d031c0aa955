// Layer norm forward of rows held in registers; formula and order are those of forward.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_REDUCTIONS 2
#include "../include/held_row.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly restrict buffer Bias { float bias[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Y { float y[]; };
layout(set = 0, binding = 4) writeonly restrict buffer Stats { vec2 stats[]; };
layout(push_constant) uniform Push { uint rows; uint cols; float eps; } push;  // cols = COLS

#define HELD
#include "statistics.glsl"

void main() {
    uint row = hlx_row(push.rows);
    uint base = row * COLS;
    precise float v[HLX_HELD];
    precise vec2 found = statistics(base, v);
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i))
        y[base + hlx_col(i)] = hlx_fma(hlx_mul(v[i], found.y), weight[hlx_col(i)], bias[hlx_col(i)]);
    if (hlx_row_thread() == 0u) stats[row] = found;
}
