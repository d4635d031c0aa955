// Cross-entropy backward: dlogits[r, v] = scale * (exp((x[r, v] - m_r) - z_r) - q[r, v]),
//   q = (1 - e) + e / V at the target and e / V elsewhere;
// +0 where the row is ignored, NaN where its target is no class.
// logits x, dlogits: [rows, V]; targets: [rows]; stats: [rows, 2] = (m, z); scale: [1].
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/math.glsl"

layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Logits { float x[]; };
layout(set = 0, binding = 1) readonly buffer Targets { uint targets[]; };
layout(set = 0, binding = 2) readonly buffer Stats { float stats[]; };
layout(set = 0, binding = 3) readonly buffer Scale { float scale[]; };
layout(set = 0, binding = 4) writeonly buffer DLogits { float dlogits[]; };
layout(push_constant) uniform Push {
    uint rows;
    uint vocabulary;
    float hit;     // (1 - e) + e / V
    float spread;  // e / V
} push;

const uint IGNORE_INDEX = 0xffffffffu;

void main() {
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint row = at / push.vocabulary;
    if (row >= push.rows) return;
    uint col = at - row * push.vocabulary;
    uint target = targets[row];

    precise float d = uintBitsToFloat(0x7fc00000u);
    if (target == IGNORE_INDEX) {
        d = 0.0;
    } else if (target < push.vocabulary) {
        precise float p =
            hlx_exp(hlx_sub(hlx_sub(x[at], stats[2u * row]), stats[2u * row + 1u]));
        d = hlx_mul(scale[0], hlx_sub(p, col == target ? push.hit : push.spread));
    }
    dlogits[at] = d;
}
