// A norm forward (kind.glsl). x, y: [rows, C]; weight, bias: [C]; stats: [rows, 2] or [rows], kept for the backward pass.
// Sums have the order of include/reduce.glsl; C is the push constant cols, also COLS.
#ifdef CENTRED
#define OUTPUTS 3
#define HLX_REDUCTIONS 2
#define FOUND found
#define MEAN found.x
#define RSTD found.y
#else
#define OUTPUTS 2
#define HLX_REDUCTIONS 1
#define FOUND rstd
#define RSTD rstd
#endif
#include "kind.glsl"

layout(set = 0, binding = 0) readonly RESTRICT buffer X { float x[]; };
layout(set = 0, binding = 1) readonly RESTRICT buffer Weight { float weight[]; };
#ifdef CENTRED
layout(set = 0, binding = 2) readonly RESTRICT buffer Bias { float bias[]; };
#endif
layout(set = 0, binding = OUTPUTS) writeonly RESTRICT buffer Y { float y[]; };
#if defined(HELD) && defined(CENTRED)
layout(set = 0, binding = OUTPUTS + 1) writeonly restrict buffer Stats { vec2 stats[]; };
#else
layout(set = 0, binding = OUTPUTS + 1) writeonly RESTRICT buffer Stats { float stats[]; };
#endif
layout(push_constant) uniform Push { uint rows; uint cols; float eps; } push;

#include "statistics.glsl"

#ifdef HELD
void main() {
    uint row = hlx_row(push.rows);
    uint base = row * COLS;
    precise float v[HLX_HELD];
    precise STATISTICS FOUND = statistics(base, v);
    if (!hlx_is_row(push.rows)) return;
    // v has the mean removed already.
    HLX_EACH(i) if (hlx_has(i)) y[base + hlx_col(i)] = RESULT(hlx_mul(v[i], RSTD), hlx_col(i));
    if (hlx_row_thread() == 0u) stats[row] = FOUND;
}
#else
void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
    precise STATISTICS FOUND = statistics(base, end);
    for (uint col = hlx_row_thread(); col < end; col += 32u)
        y[base + col] = RESULT(NORMAL(x[base + col]), col);
    if (row < push.rows && hlx_row_thread() == 0u) {
        STORE_STATS(row, FOUND)
    }
}
#endif
