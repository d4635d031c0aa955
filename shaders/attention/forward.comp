// Plain causal attention forward over packed heads, one head's 64 queries a workgroup: the formulas and the order of every
// sum are those of ranged_forward.glsl. qkv: [B, T, 3, H, D]; o: [B, T, H, D]; stats: [B, H, T, 2].
// For heads wider than 64 columns, and for devices short of shared memory; others take forward_narrow.glsl.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "tiles.glsl"

layout(set = 0, binding = 0) readonly buffer QKV { float qkv[]; };
layout(set = 0, binding = 1) writeonly buffer O { float o[]; };
layout(set = 0, binding = 2) writeonly buffer Stats { float stats[]; };

void main() {
    // The tiles with most keys go first, so that the last to finish are short.
    OWN_TILE(query0, tiles - 1u - hlx_group() % tiles)

    precise vec4 m = vec4(uintBitsToFloat(0xff800000u));
    precise vec4 l = vec4(0.0);
    precise vec4 sums[8];
    [[unroll]] for (uint c = 0u; c < 8u; ++c) sums[c] = vec4(0.0);

#define SEES(k, column) (key0 + (column) <= query0 + (k))
    uint end = min(push.time, row0 + ROWS);
    for (uint key0 = 0u; key0 < end; key0 += COLS) {
        precise vec4 near = vec4(0.0);
        precise vec4 far = vec4(0.0);
        CONTRACT(near, far, qkv, queries_at, QKV_STRIDE, row0, qkv, keys_at,
                 QKV_STRIDE, key0)

        // Each row's maximum over the block, through `wide`, which is free again.
        precise vec4 tops;
        for (uint k = 0u; k < 4u; ++k) {
            precise float lowest = uintBitsToFloat(0xff800000u);
            near[k] = SEES(k, tx) ? hlx_mul(near[k], push.scale) : lowest;
            far[k] = SEES(k, tx + 16u) ? hlx_mul(far[k], push.scale) : lowest;
            tops[k] = hlx_max(near[k], far[k]);
        }
        barrier();
        wide[tx][ty] = tops;
        barrier();
        for (uint x = 0u; x < 16u; ++x)
            for (uint k = 0u; k < 4u; ++k) tops[k] = hlx_max(tops[k], wide[x][ty][k]);

        precise vec4 correction;
        for (uint k = 0u; k < 4u; ++k) {
            precise float top = hlx_max(m[k], hlx_pos0(tops[k]));
            correction[k] = hlx_exp(hlx_sub(m[k], top));
            m[k] = top;
            near[k] = SEES(k, tx) ? hlx_exp(hlx_sub(near[k], top)) : 0.0;
            far[k] = SEES(k, tx + 16u) ? hlx_exp(hlx_sub(far[k], top)) : 0.0;
        }
        weights[tx][ty] = near;
        weights[tx + 16u][ty] = far;
        l = mul4(l, correction);
        [[unroll]] for (uint c = 0u; c < 8u; ++c)
            if (16u * c < D) sums[c] = mul4(sums[c], correction);

        ACCUMULATE(key0 + COLS > row0 + 1u, SEES, sums, qkv, values_at, QKV_STRIDE, key0)
        for (uint j = 0u; j < COLS; ++j)
            for (uint k = 0u; k < 4u; ++k) l[k] = hlx_add(l[k], weights[j][ty][k]);
    }

#define FINISH(x, k) hlx_pos0(hlx_div(x, l[k]))
    STORE_ROWS(o, o_base(head), O_STRIDE, row0, sums, FINISH)
    if (tx == 0u)
        for (uint k = 0u; k < 4u; ++k)
            if (query0 + k < push.time) {
                uint at = 2u * (head * push.time + query0 + k);
                stats[at] = m[k];
                stats[at + 1u] = hlx_div(1.0, l[k]);
            }
}
