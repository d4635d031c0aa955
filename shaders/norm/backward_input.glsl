// A norm backward, input (kind.glsl): with g = dy weight, b_r = (sum_c g n) / C and a_r = (sum_c g) / C, 0 in an RMS norm,
//   dx[r, c] = rstd_r ((g[r, c] - a_r) - n[r, c] b_r)
// x, dy, dx: [rows, C]; weight: [C]; stats: [rows, 2] or [rows]. With RESIDUAL, dx is that gradient on top of another that
// has reached x: residual + the above. Sums have the order of include/reduce.glsl; C is the push constant cols, also COLS.
#ifdef CENTRED
#define HLX_REDUCTIONS 2
#else
#define HLX_REDUCTIONS 1
#endif
#if defined(HELD) && defined(CENTRED)
#define MEAN mean_rstd.x
#define RSTD mean_rstd.y
#else
#define MEAN mean
#define RSTD rstd
#endif
#include "kind.glsl"

layout(constant_id = 4) const uint RESIDUAL = 0u;

// Held rows of a layer norm load both statistics at once; the gradients there are not `restrict`.
#if defined(HELD) && defined(CENTRED)
#define STATS vec2
#define RESTRICT_REST
#else
#define STATS float
#define RESTRICT_REST RESTRICT
#endif
layout(set = 0, binding = 0) readonly RESTRICT buffer X { float x[]; };
layout(set = 0, binding = 1) readonly RESTRICT buffer Weight { float weight[]; };
layout(set = 0, binding = 2) readonly RESTRICT buffer Stats { STATS stats[]; };
layout(set = 0, binding = 3) readonly RESTRICT_REST buffer DY { float dy[]; };
layout(set = 0, binding = 4) readonly RESTRICT_REST buffer Residual { float residual[]; };
layout(set = 0, binding = 5) writeonly RESTRICT_REST buffer DX { float dx[]; };
layout(push_constant) uniform Push { uint rows; uint cols; } push;

// A thread stores an element.
#ifdef CENTRED
#define GRADIENT(g, normal) hlx_mul(RSTD, hlx_sub(hlx_sub(g, a), hlx_mul(normal, b)))
#else
#define GRADIENT(g, normal) hlx_mul(RSTD, hlx_sub(g, hlx_mul(normal, b)))
#endif
#define STORE(at, g, normal) \
    precise float value = GRADIENT(g, normal); \
    if (RESIDUAL != 0u) value = hlx_add(residual[at], value); \
    dx[at] = value;

#ifdef HELD
void main() {
    uint row = hlx_row(push.rows);
    uint base = row * COLS;
    precise float normal[HLX_HELD];
    precise float g[HLX_HELD];
    HLX_EACH(i) if (hlx_has(i)) {
        normal[i] = x[base + hlx_col(i)];
        g[i] = dy[base + hlx_col(i)];
    }
#ifdef CENTRED
    precise vec2 mean_rstd = stats[row];
    HLX_START(g_lanes, 0.0)
    HLX_START(gn_lanes, 0.0)
    HLX_EACH(i) if (hlx_has(i)) {
        g[i] = hlx_mul(g[i], weight[hlx_col(i)]);
        normal[i] = NORMAL(normal[i]);
        g_lanes[HLX_LANE(i)] = hlx_add(g_lanes[HLX_LANE(i)], g[i]);
        gn_lanes[HLX_LANE(i)] = hlx_add(gn_lanes[HLX_LANE(i)], hlx_mul(g[i], normal[i]));
    }
    // Both sums over the same barriers.
    hlx_publish(hlx_fold(g_lanes, 0u, false), 0u);
    hlx_publish(hlx_fold(gn_lanes, 1u, false), 1u);
    barrier();
    hlx_publish_eighth(0u, false);
    hlx_publish_eighth(1u, false);
    barrier();
    precise float n = float(COLS);
    precise float a = hlx_div(hlx_finish(0u, false), n);
    precise float b = hlx_div(hlx_finish(1u, false), n);
#else
    precise float rstd = stats[row];
    HLX_START(lanes, 0.0)
    HLX_EACH(i) if (hlx_has(i)) {
        g[i] = hlx_mul(g[i], weight[hlx_col(i)]);
        normal[i] = NORMAL(normal[i]);
        lanes[HLX_LANE(i)] = hlx_add(lanes[HLX_LANE(i)], hlx_mul(g[i], normal[i]));
    }
    precise float b = hlx_div(hlx_reduce(lanes, 0u, false), float(COLS));
#endif
    if (!hlx_is_row(push.rows)) return;
    HLX_EACH(i) if (hlx_has(i)) { STORE(base + hlx_col(i), g[i], normal[i]) }
}
#else
void main() {
    uint row = hlx_row();
    uint end = row < push.rows ? push.cols : 0u;
    uint base = row * push.cols;
#ifdef CENTRED
    precise float n = float(push.cols);
    precise float mean = 0.0;
    precise float rstd = 0.0;
    if (row < push.rows) {
        mean = stats[2u * row];
        rstd = stats[2u * row + 1u];
    }
    precise vec4 g_lanes = vec4(0.0);
    precise vec4 gn_lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, {
        precise float g = hlx_mul(dy[base + col], weight[col]);
        precise float normal = NORMAL(x[base + col]);
        g_lanes[j] = hlx_add(g_lanes[j], g);
        gn_lanes[j] = hlx_add(gn_lanes[j], hlx_mul(g, normal));
    })
    precise float a = hlx_div(hlx_row_sum(g_lanes), n);
    precise float b = hlx_div(hlx_row_sum(gn_lanes), n);
#else
    precise float rstd = row < push.rows ? stats[row] : 0.0;
    precise vec4 lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, {
        precise float g = hlx_mul(dy[base + col], weight[col]);
        lanes[j] = hlx_add(lanes[j], hlx_mul(g, NORMAL(x[base + col])));
    })
    precise float b = hlx_div(hlx_row_sum(lanes), float(push.cols));
#endif
    for (uint col = hlx_row_thread(); col < end; col += 32u) {
        precise float g = hlx_mul(dy[base + col], weight[col]);
        precise float normal = NORMAL(x[base + col]);
        STORE(base + col, g, normal)
    }
}
#endif
