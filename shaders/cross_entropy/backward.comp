// Cross-entropy backward: dlogits[r, v] = scale * (exp((x[r, v] - m_r) - z_r) - q[r, v]),
//   q = (1 - e) + e / V at the target and e / V elsewhere;
// +0 where the row is ignored, NaN where its target is no class.
// Columns go in vectors of four where V is a multiple of four.
// logits x, dlogits: [rows, V]; targets: [rows]; stats: [rows, 2] = (m, z); scale: [1].
#include "../include/math.glsl"

layout(local_size_x = 256) in;
HLX_VIEWS(0, readonly restrict, float, Logits, x)
layout(set = 0, binding = 1) readonly restrict buffer Targets { uint targets[]; };
layout(set = 0, binding = 2) readonly restrict buffer Stats { vec2 stats[]; };
layout(set = 0, binding = 3) readonly restrict buffer Scale { float scale[]; };
HLX_VIEWS(4, writeonly restrict, float, DLogits, dlogits)
layout(push_constant) uniform Push {
    uint rows, vocabulary;
    float hit;     // (1 - e) + e / V
    float spread;  // e / V
} push;

const uint IGNORE_INDEX = 0xffffffffu;

float slope(float x, uint col, uint target, vec2 top_and_log_sum) {
    precise float p = hlx_exp(hlx_sub(hlx_sub(x, top_and_log_sum.x), top_and_log_sum.y));
    precise float d = hlx_mul(scale[0], hlx_sub(p, col == target ? push.hit : push.spread));
    d = target < push.vocabulary ? d : uintBitsToFloat(0x7fc00000u);
    return target == IGNORE_INDEX ? 0.0 : d;
}

// Vectors of a thread, 256 apart; large tensors take two, whose loads are under way together.
layout(constant_id = 0) const uint VECTORS = 1u;

void slopes_of_vectors(uint first, uint quads) {
    uint end = quads * push.rows;
    precise vec4 x[VECTORS];
    precise vec2 s[VECTORS];
    uint target[VECTORS];
    uint col[VECTORS];
    [[unroll]] for (uint v = 0u; v < VECTORS; ++v) {
        uint i = min(first + 256u * v, end - 1u);
        uint row = i / quads;
        x[v] = x4[i];
        s[v] = stats[row];
        target[v] = targets[row];
        col[v] = 4u * (i - row * quads);
    }
    [[unroll]] for (uint v = 0u; v < VECTORS; ++v)
        if (first + 256u * v < end)
            dlogits4[first + 256u * v] = vec4(
                slope(x[v].x, col[v], target[v], s[v]), slope(x[v].y, col[v] + 1u, target[v], s[v]),
                slope(x[v].z, col[v] + 2u, target[v], s[v]), slope(x[v].w, col[v] + 3u, target[v], s[v]));
}

void main() {
    uint first = hlx_group() * 256u * VECTORS + gl_LocalInvocationID.x;
    // Where fma is emulated one copy of the exponential spares software drivers four.
    if (HLX_NATIVE_FMA != 0u && (push.vocabulary & 3u) == 0u) {
        slopes_of_vectors(first, push.vocabulary >> 2);
        return;
    }
    uint end = push.rows * push.vocabulary;
    for (uint j = 0u; j < 4u * VECTORS; ++j) {
        uint at = 4u * VECTORS * 256u * hlx_group() + 256u * j + gl_LocalInvocationID.x;
        if (at >= end) return;
        uint row = at / push.vocabulary;
        dlogits1[at] = slope(x1[at], at - row * push.vocabulary, targets[row], stats[row]);
    }
}
