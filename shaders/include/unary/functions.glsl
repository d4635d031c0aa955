// Unary operations that are functions of functions.glsl.
#include "../functions.glsl"

float exp2_f32(float x) { return hlx_exp2(x); }
float expm1_f32(float x) { return hlx_expm1(x); }
float log2_f32(float x) { return hlx_log2(x); }
float log10_f32(float x) { return hlx_log10(x); }
float log1p_f32(float x) { return hlx_log1p(x); }
float tan_f32(float x) { return hlx_tan(x); }
float asin_f32(float x) { return hlx_asin(x); }
float acos_f32(float x) { return hlx_acos(x); }
float atan_f32(float x) { return hlx_atan(x); }
float sinh_f32(float x) { return hlx_sinh(x); }
float cosh_f32(float x) { return hlx_cosh(x); }

float elu_f32(float x, float alpha, float unused) {
    return x > 0.0 ? x : hlx_mul(alpha, hlx_expm1(x));
}
