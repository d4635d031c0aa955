// The factor that brings a gradient's norm down to max_norm, as torch.nn.utils.clip_grad_norm_:
//   factor = min(1, max_norm / (norm + 1e-6)); NaN if the norm is NaN.
#include "../include/math.glsl"

layout(local_size_x = 1) in;

layout(push_constant) uniform Push { float max_norm; } push;

layout(set = 0, binding = 0) readonly restrict buffer Norm { float norm[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Factor { float factor[]; };

void main() {
    precise float ratio = hlx_div(push.max_norm, hlx_add(norm[0], 1e-6));
    factor[0] = ratio >= 1.0 ? 1.0 : ratio;
}
