// The numbers that are prepared, from those that lie in memory: themselves, or what one of these macros says.
//   OF_LAYER_NORM   y = fma((x - mean) rstd, weight, bias), with stats: [rows, 2] = (mean, rstd)
//   OF_RMS_NORM     y = (x rstd) weight, with stats: [rows] = rstd
//   OF_ACTIVATION   y = f(x), the activation that the constant SOURCE_KIND picks
//   OF_GATED        y = f(x) up, likewise
// What they read besides is bound from SOURCE_BINDING on: stats, weight, bias; or up.
#ifndef SOURCE_KIND
#define SOURCE_KIND 9
#endif
#if defined(OF_LAYER_NORM)
layout(set = 0, binding = SOURCE_BINDING) readonly restrict buffer SourceStats { vec2 source_stats[]; };
layout(set = 0, binding = SOURCE_BINDING + 1) readonly restrict buffer SourceWeight { float source_weight[]; };
layout(set = 0, binding = SOURCE_BINDING + 2) readonly restrict buffer SourceBias { float source_bias[]; };

float of_source(float x, uint row, uint column, uint at) {
    vec2 stats = source_stats[row];
    return hlx_fma(hlx_mul(hlx_sub(x, stats.x), stats.y), source_weight[column], source_bias[column]);
}
#elif defined(OF_RMS_NORM)
layout(set = 0, binding = SOURCE_BINDING) readonly restrict buffer SourceStats { float source_stats[]; };
layout(set = 0, binding = SOURCE_BINDING + 1) readonly restrict buffer SourceWeight { float source_weight[]; };

float of_source(float x, uint row, uint column, uint at) {
    return hlx_mul(hlx_mul(x, source_stats[row]), source_weight[column]);
}
#elif defined(OF_ACTIVATION) || defined(OF_GATED)
layout(constant_id = SOURCE_KIND) const uint KIND = 0;
#include "../include/activation.glsl"
#include "../include/activation_kinds.glsl"
#ifdef OF_GATED
layout(set = 0, binding = SOURCE_BINDING) readonly restrict buffer SourceUp { float source_up[]; };
#define GATED(y) hlx_mul(y, source_up[at])
#else
#define GATED(y) y
#endif

float of_source(float x, uint row, uint column, uint at) { return GATED(activation_forward(x)); }
#else
float of_source(float x, uint row, uint column, uint at) { return x; }
#endif

// Four neighbouring numbers of a row, the first of which lies at `at`; zeros from column `end` on.
vec4 of_source4(vec4 x, uint row, uint column, uint end, uint at) {
    vec4 y;
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        y[j] = column + j < end ? of_source(x[j], row, column + j, at + j) : 0.0;
    return y;
}
