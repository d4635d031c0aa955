// Unary operations made of functions of functions.glsl.
#include "../functions.glsl"

float elu_f32(float x, float alpha, float unused) {
    return x > 0.0 ? x : hlx_mul(alpha, hlx_expm1(x));
}
