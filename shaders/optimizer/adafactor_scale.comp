// The factor of Adafactor's direction: rho max(eps2, norm(p) / sqrt(n)) / max(1, norm(u) / (d sqrt(n))), rho in the place of
// a rate; -1, which skips the step, if the clip's factor is negative.
#include "../include/math.glsl"
#define HLX_MORE_PUSH float inverse_root; float epsilon; float inverse_limit;
#include "hyper.glsl"

layout(local_size_x = 1) in;

layout(set = 0, binding = 0) readonly restrict buffer OfParameter { float parameter_norm[]; };
layout(set = 0, binding = 4) readonly restrict buffer OfDirection { float direction_norm[]; };
layout(set = 0, binding = 5) restrict buffer Out { float result[]; };

void main() {
    uint at = HYPER_LEN * push.row;
    precise float scale = hlx_mul(parameter_norm[0], push.inverse_root);
    scale = scale < push.epsilon ? push.epsilon : scale;
    precise float over = hlx_mul(direction_norm[0], push.inverse_limit);
    over = over < 1.0 ? 1.0 : over;
    precise float factor = hlx_div(hlx_mul(-NEGATIVE_RATE, scale), over);
    result[0] = clip[0] < 0.0 ? -1.0 : factor;
}
