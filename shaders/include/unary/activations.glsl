// Unary operations that are activations of activation.glsl, or made of them.
#include "../activation.glsl"

float gelu_f32(float x) { return gelu_forward(x); }
float gelu_tanh_f32(float x) { return gelu_tanh_forward(x); }
float silu_f32(float x) { return silu_forward(x); }
float softplus_f32(float x) { return softplus_forward(x); }
float mish_f32(float x) { return hlx_mul(x, hlx_tanh(softplus_forward(x))); }
