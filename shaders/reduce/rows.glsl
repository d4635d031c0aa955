// Reduces each row of x [rows, cols] to one value: sum, sum of squares, or largest element.
//
// The lanes and the tree are those of reduce.glsl. x holds push.count elements; the last row may be shorter than the others
// (the pieces of a flat buffer). With ROOT the result is the square root of the sum.
#define HLX_REDUCTIONS 1
#include "../include/row.glsl"
#ifdef HELD
#define FIRST_CONSTANT 4
#else
#define FIRST_CONSTANT 0
#endif

layout(constant_id = FIRST_CONSTANT) const uint OPERATION = 0u;  // 0 sum, 1 sum of squares, 2 largest
layout(constant_id = FIRST_CONSTANT + 1) const uint ROOT = 0u;

layout(push_constant) uniform Push {
    uint rows;
    uint cols;  // COLS of held rows
    uint count;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Result { float result[]; };

#ifdef HELD
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
#else
float join(float lane, float value) {
    if (OPERATION == 0u) return hlx_add(lane, value);
    if (OPERATION == 1u) return hlx_add(lane, hlx_mul(value, value));
    return hlx_max(lane, value);
}

void main() {
    uint row = hlx_row();
    uint begin = row * push.cols;
    uint cols = row < push.rows ? min(push.cols, push.count - begin) : 0u;
    precise vec4 lanes = vec4(OPERATION == 2u ? HLX_LOWEST : 0.0);
    uint first = hlx_row_thread();
    for (; first + 96u < cols; first += HLX_LANES) {
        precise vec4 values = vec4(x[begin + first], x[begin + first + 32u],
                                   x[begin + first + 64u], x[begin + first + 96u]);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) lanes[j] = join(lanes[j], values[j]);
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (first + 32u * j < cols) lanes[j] = join(lanes[j], x[begin + first + 32u * j]);
    precise float total = 0.0;
    if (OPERATION == 2u) total = hlx_row_max(lanes);
    else total = hlx_row_sum(lanes);
    if (ROOT != 0u) total = hlx_sqrt(total);
    if (row < push.rows && hlx_row_thread() == 0u) result[row] = total;
}
#endif
