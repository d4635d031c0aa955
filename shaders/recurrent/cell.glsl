// The frame of a recurrent cell's step: a thread for each unit of each sample.
//
// B samples, T positions, H units, W gates. Tensors of all positions are [B, T, W, H] or [B, T, H],
// those of the step [B, W, H] or [B, H]. A shader defines HLX_GATES, the number W, includes this file, and then defines
//   void step(uint row, uint sample_row, uint unit)
// for the sample's row of this position, (sample T + t), and its row of the step, the sample.
#include "../include/math.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint batch, time, width, position;
    uint previous;  // the position before this one; `time` if this is the first
} push;

// The place of a gate in [.., W, H].
uint gate(uint row, uint which, uint unit) { return (row * HLX_GATES + which) * push.width + unit; }

// The place of a unit in [.., H].
uint place(uint row, uint unit) { return row * push.width + unit; }

// s (1 - s), the derivative of a sigmoid by its value.
float sigmoid_slope(float s) { return hlx_mul(s, hlx_sub(1.0, s)); }

// 1 - t^2, the derivative of a hyperbolic tangent by its value.
float tanh_slope(float t) { return hlx_fma(-t, t, 1.0); }

void step(uint row, uint sample_row, uint unit);

void main() {
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (i >= push.batch * push.width) return;
    uint sample_row = i / push.width;
    step(sample_row * push.time + push.position, sample_row, i - sample_row * push.width);
}
