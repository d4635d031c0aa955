// Unary operations that are functions of math.glsl.
#include "../math.glsl"

float exp_f32(float x) { return hlx_exp(x); }
float log_f32(float x) { return hlx_log(x); }
float sin_f32(float x) { return hlx_sin(x); }
float cos_f32(float x) { return hlx_cos(x); }
float tanh_f32(float x) { return hlx_tanh(x); }
float sigmoid_f32(float x) { return hlx_sigmoid(x); }
float erf_f32(float x) { return hlx_erf(x); }
