// Plain causal attention backward, dK and dV, one head's 64 keys a workgroup, as in ranged_backward_key_value.glsl, after
// backward_query.comp, which has written delta. qkv, dqkv: [B, T, 3, H, D], of which the second and third are written;
// do: [B, T, H, D]; stats: [B, H, T, 2] = (m, 1 / l); delta: [B, H, T].
// For heads wider than 64 columns, and where ds does not fit in memory; others take backward_key_value_narrow.glsl.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "tiles.glsl"

layout(set = 0, binding = 0) readonly buffer QKV { float qkv[]; };
layout(set = 0, binding = 1) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 2) readonly buffer DO { float d_o[]; };
layout(set = 0, binding = 3) readonly buffer Delta { float delta[]; };
layout(set = 0, binding = 4) writeonly buffer DQKV { float dqkv[]; };

// p and ds of four keys for one query, given s and dp.
void weigh(uint head, uint query, vec4 s, vec4 dp, out vec4 p, out vec4 ds) {
    precise float m = 0.0;
    precise float inverse = 0.0;
    precise float offset = 0.0;
    if (query < push.time) {
        uint at = head * push.time + query;
        m = stats[2u * at];
        inverse = stats[2u * at + 1u];
        offset = delta[at];
    }
    for (uint k = 0u; k < 4u; ++k) {
        precise float weight = hlx_mul(hlx_exp(hlx_sub(hlx_mul(s[k], push.scale), m)), inverse);
        p[k] = weight;
        ds[k] = hlx_mul(weight, hlx_sub(dp[k], offset));
    }
}

void main() {
    OWN_TILE(key0, hlx_group() % tiles)
    uint d_o_at = o_base(head);

    precise vec4 dk[8];
    precise vec4 dv[8];
    [[unroll]] for (uint c = 0u; c < 8u; ++c) {
        dk[c] = vec4(0.0);
        dv[c] = vec4(0.0);
    }
    for (uint query0 = row0; query0 < push.time; query0 += COLS) {
        precise vec4 near = vec4(0.0);
        precise vec4 far = vec4(0.0);
        CONTRACT(near, far, qkv, keys_at, QKV_STRIDE, row0, qkv, queries_at,
                 QKV_STRIDE, query0)
        precise vec4 d_near = vec4(0.0);
        precise vec4 d_far = vec4(0.0);
        CONTRACT(d_near, d_far, qkv, values_at, QKV_STRIDE, row0, d_o, d_o_at,
                 O_STRIDE, query0)
        precise vec4 p_near, p_far, ds_near, ds_far;
        weigh(head, query0 + tx, near, d_near, p_near, ds_near);
        weigh(head, query0 + tx + 16u, far, d_far, p_far, ds_far);
        bool edge = query0 < row0 + ROWS || query0 + COLS > push.time;
#define SEES(k, column) (key0 + (k) <= query0 + (column) && query0 + (column) < push.time)

        weights[tx][ty] = p_near;
        weights[tx + 16u][ty] = p_far;
        ACCUMULATE(edge, SEES, dv, d_o, d_o_at, O_STRIDE, query0)
        barrier();
        weights[tx][ty] = ds_near;
        weights[tx + 16u][ty] = ds_far;
        ACCUMULATE(edge, SEES, dk, qkv, queries_at, QKV_STRIDE, query0)
    }

#define FINISH_K(x, k) hlx_mul(hlx_pos0(x), push.scale)
#define FINISH_V(x, k) hlx_pos0(x)
    STORE_ROWS(dqkv, keys_at, QKV_STRIDE, row0, dk, FINISH_K)
    STORE_ROWS(dqkv, values_at, QKV_STRIDE, row0, dv, FINISH_V)
}
