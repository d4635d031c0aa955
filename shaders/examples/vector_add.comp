// The vector addition of hlx-core's documentation: c[i] = a[i] + b[i], count elements.
#version 450

layout(local_size_x = 64) in;

layout(push_constant) uniform Push { uint count; } push;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index < push.count) {
        precise float sum = a[index] + b[index];
        c[index] = sum;
    }
}
