// The frame of the shaders that compute out[i] = f(the float whose bits are first + i * stride): one
// function of HLX's arithmetic over any stretch of its 2^32 inputs, without a buffer of them
// (crates/hlx-proof/src/exhaustive/functions.rs).
//
// A shader defines apply(word) for its share of the functions: some drivers compile every branch
// of a specialization constant.

layout(local_size_x = 64) in;

// A constant, so that a pipeline holds one function.
layout(constant_id = 0) const uint FUNCTION = 0u;

layout(push_constant) uniform Push { uint count; uint first; uint stride; } push;
layout(set = 0, binding = 0) writeonly buffer Out { uint result[]; };

float apply(uint word);

void main() {
    uint index = hlx_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (index >= push.count) return;
    uint word = push.first + index * push.stride;
    // Function 0 gives the inputs as a tensor holds them, for kernels: subnormals are zeros.
    uint stored = (word & 0x7f800000u) == 0u ? word & 0x80000000u : word;
    result[index] = FUNCTION == 0u ? stored : floatBitsToUint(apply(word));
}
