// y[i] = a x[i] + y[i], product and sum rounded each: the kernel of 07_own_kernel.rs.
#version 460

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
    uint count;
    float a;
} push;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= push.count) return;
    precise float product = push.a * x[i];
    precise float sum = product + y[i];
    y[i] = sum;
}
