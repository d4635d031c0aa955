// Softmax backward: dx[r, c] = y[r, c] * (dy[r, c] - sum_k y[r, k] * dy[r, k])
// y, dy, dx: [rows, cols]. The sum has the order of include/reduce.glsl.
#define HLX_REDUCTIONS 1
#include "../include/row.glsl"

layout(set = 0, binding = 0) readonly RESTRICT buffer Y { float y[]; };
layout(set = 0, binding = 1) readonly RESTRICT buffer DY { float dy[]; };
layout(set = 0, binding = 2) writeonly RESTRICT buffer DX { float dx[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;

#ifdef HELD
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
#else
void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
    precise vec4 lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, lanes[j] = hlx_add(lanes[j], hlx_mul(y[base + col], dy[base + col]));)
    precise float inner = hlx_row_sum(lanes);
    for (uint col = hlx_row_thread(); col < end; col += 32u)
        dx[base + col] = hlx_mul(y[base + col], hlx_sub(dy[base + col], inner));
}
#endif
