// Sum, sum of squares or largest element of rows held in registers, as rows.comp;
// the last row may be shorter than the others.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"
#define HLX_REDUCTIONS 1
#include "../include/held_row.glsl"

layout(constant_id = 4) const uint OPERATION = 0u;  // 0 sum, 1 sum of squares, 2 largest
layout(constant_id = 5) const uint ROOT = 0u;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Result { float result[]; };
layout(push_constant) uniform Push {
    uint rows;
    uint cols;  // COLS
    uint count;
} push;

void main() {
    uint row = hlx_row(push.rows);
    uint base = row * COLS;
    // Joining what a short row lacks changes no bit: zeros to a sum that ends without a sign of
    // zero, and minus infinity to a maximum.
    precise float nothing = OPERATION == 2u ? HLX_LOWEST : 0.0;
    precise float v[HLX_HELD];
    if (push.count - base >= COLS) {
        HLX_EACH(i) {
            v[i] = nothing;
            if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
        }
    } else {
        HLX_EACH(i) {
            v[i] = nothing;
            if (base + hlx_col(i) < push.count) v[i] = x[base + hlx_col(i)];
        }
    }
    HLX_START(lanes, nothing)
    HLX_EACH(i) {
        precise float value = OPERATION == 1u ? hlx_mul(v[i], v[i]) : v[i];
        lanes[HLX_LANE(i)] = hlx_join(lanes[HLX_LANE(i)], value, OPERATION == 2u);
    }
    precise float total = hlx_reduce(lanes, 0u, OPERATION == 2u);
    if (ROOT != 0u) total = hlx_sqrt(total);
    if (hlx_is_row(push.rows) && hlx_row_thread() == 0u) result[row] = total;
}
