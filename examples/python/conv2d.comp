// A convolution of images, stride 1, zeros around: the kernel of conv2d.py.
//
// y[b, o, i, j] = sum over c, u, v of x[b, c, i + u - P, j + v - P] w[o, c, u, v], x is [B, C, H, W], w [O, C, R, R]
// and y [B, O, H', W'] with H' = H + 2 P - R + 1. One chain of fma over (c, u, v) in order from +0, as docs/numerics.md
// specifies a convolution. Workgroups: W' / 8 in x, H' / 8 in y, rounded up, and B O in z.
#version 460
#include "../../shaders/include/arith.glsl"

layout(local_size_x = 8, local_size_y = 8) in;

layout(push_constant) uniform Push {
    uint channels;
    uint height;
    uint width;
    uint out_channels;
    uint kernel;
    uint padding;
} push;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weights { float w[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };

void main() {
    uint out_height = push.height + 2u * push.padding - push.kernel + 1u;
    uint out_width = push.width + 2u * push.padding - push.kernel + 1u;
    uint i = gl_GlobalInvocationID.y, j = gl_GlobalInvocationID.x;
    uint image = gl_WorkGroupID.z / push.out_channels, o = gl_WorkGroupID.z % push.out_channels;
    if (i >= out_height || j >= out_width) return;
    precise float acc = 0.0;
    for (uint c = 0u; c < push.channels; c++) {
        for (uint u = 0u; u < push.kernel; u++) {
            for (uint v = 0u; v < push.kernel; v++) {
                // Below zero wraps past every height and width.
                uint row = i + u - push.padding, column = j + v - push.padding;
                if (row < push.height && column < push.width) {
                    float value = x[((image * push.channels + c) * push.height + row) * push.width + column];
                    float weight = w[((o * push.channels + c) * push.kernel + u) * push.kernel + v];
                    acc = hlx_fma(value, weight, acc);
                }
            }
        }
    }
    y[((image * push.out_channels + o) * out_height + i) * out_width + j] = hlx_pos0(acc);
}
