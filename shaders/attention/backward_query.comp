// Plain causal attention backward, delta and dQ, one head's 64 queries a workgroup:
//   delta[i] = sum_d do[i, d] o[i, d], a chain; the rest is as in ranged_backward_query.glsl
// qkv, dqkv: [B, T, 3, H, D], of which the first of three is written; o, do: [B, T, H, D]; stats: [B, H, T, 2] = (m, 1 / l);
// delta: [B, H, T], for dK and dV. (Dao et al. 2022, appendix B)
// For heads wider than 64 columns, and where ds does not fit in memory; others take backward_query_stored.comp.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "tiles.glsl"

layout(set = 0, binding = 0) readonly buffer QKV { float qkv[]; };
layout(set = 0, binding = 1) readonly buffer O { float o[]; };
layout(set = 0, binding = 2) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 3) readonly buffer DO { float d_o[]; };
layout(set = 0, binding = 4) writeonly buffer Delta { float delta[]; };
layout(set = 0, binding = 5) writeonly buffer DQKV { float dqkv[]; };

void main() {
    // The tiles with most keys go first, so that the last to finish are short.
    OWN_TILE(query0, tiles - 1u - hlx_group() % tiles)
    uint d_o_at = o_base(head);

    precise vec4 deltas = vec4(0.0);
    for (uint d0 = 0u; d0 < D; d0 += 32u) {
        barrier();
        LOAD_WIDE(wide, d_o, d_o_at, O_STRIDE, row0, d0)
        LOAD_WIDE(weights, o, d_o_at, O_STRIDE, row0, d0)
        barrier();
        uint depth = min(32u, D - d0);
        for (uint d = 0u; d < depth; ++d)
            for (uint k = 0u; k < 4u; ++k)
                deltas[k] = hlx_fma(wide[d][ty][k], weights[d][ty][k], deltas[k]);
    }
    deltas = pos0_4(deltas);

    precise vec4 m = vec4(0.0);
    precise vec4 inverse = vec4(0.0);
    for (uint k = 0u; k < 4u; ++k)
        if (query0 + k < push.time) {
            uint at = head * push.time + query0 + k;
            m[k] = stats[2u * at];
            inverse[k] = stats[2u * at + 1u];
            if (tx == 0u) delta[at] = deltas[k];
        }

    precise vec4 sums[8];
    [[unroll]] for (uint c = 0u; c < 8u; ++c) sums[c] = vec4(0.0);
    uint end = min(push.time, row0 + ROWS);
    for (uint key0 = 0u; key0 < end; key0 += COLS) {
        precise vec4 near = vec4(0.0);
        precise vec4 far = vec4(0.0);
        CONTRACT(near, far, qkv, queries_at, QKV_STRIDE, row0, qkv, keys_at,
                 QKV_STRIDE, key0)
        precise vec4 d_near = vec4(0.0);
        precise vec4 d_far = vec4(0.0);
        CONTRACT(d_near, d_far, d_o, d_o_at, O_STRIDE, row0, qkv, values_at,
                 QKV_STRIDE, key0)
        for (uint k = 0u; k < 4u; ++k) {
            precise float p = hlx_mul(hlx_exp(hlx_sub(hlx_mul(near[k], push.scale), m[k])), inverse[k]);
            near[k] = hlx_mul(p, hlx_sub(d_near[k], deltas[k]));
            p = hlx_mul(hlx_exp(hlx_sub(hlx_mul(far[k], push.scale), m[k])), inverse[k]);
            far[k] = hlx_mul(p, hlx_sub(d_far[k], deltas[k]));
        }
        weights[tx][ty] = near;
        weights[tx + 16u][ty] = far;
#define SEES(k, column) (key0 + (column) <= query0 + (k))
        ACCUMULATE(key0 + COLS > row0 + 1u, SEES, sums, qkv, keys_at, QKV_STRIDE, key0)
    }

#define FINISH(x, k) hlx_mul(hlx_pos0(x), push.scale)
    STORE_ROWS(dqkv, queries_at, QKV_STRIDE, row0, sums, FINISH)
}
