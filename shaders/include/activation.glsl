// The activations y = f(x) and their derivatives dx = dy f'(x), an element at a time.
//
// Each kind of activations.txt has two functions: NAME_forward(x) and NAME_backward(x, dy).
#include "math.glsl"

const float GELU_CUBIC_3 = 0.134145;  // 3 * 0.044715

// sqrt(2/pi) (x + 0.044715 x^3)
float gelu_inner(float x, float x_squared) {
    return hlx_mul(hlx_mul(HLX_SQRT_2_OVER_PI, x), hlx_fma(HLX_GELU_CUBIC, x_squared, 1.0));
}

// Within [-16, 16]: both derivatives are 0 or 1 beyond, and x^2 cannot overflow. NaN stays.
float within_16(float x) { return x > 16.0 ? 16.0 : (x < -16.0 ? -16.0 : x); }

// (0.5 x) (1 + erf(x / sqrt 2))
float gelu_forward(float x) {
    return hlx_mul(hlx_mul(0.5, x), hlx_add(1.0, hlx_erf(hlx_mul(x, HLX_INV_SQRT_2))));
}

// dy (cdf + x pdf), with the normal distribution's cdf and pdf.
float gelu_backward(float input_value, float dy) {
    precise float x = within_16(input_value);
    precise float cdf = hlx_mul(0.5, hlx_add(1.0, hlx_erf(hlx_mul(x, HLX_INV_SQRT_2))));
    precise float pdf = hlx_mul(HLX_INV_SQRT_2PI, hlx_exp(hlx_mul(hlx_mul(-0.5, x), x)));
    return hlx_mul(dy, hlx_fma(x, pdf, cdf));
}

// (0.5 x) (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
float gelu_tanh_forward(float x) {
    precise float t = hlx_tanh(gelu_inner(x, hlx_mul(x, x)));
    return hlx_mul(hlx_mul(0.5, x), hlx_add(1.0, t));
}

// dy (0.5 (1 + t) + 0.5 x (1 - t^2) inner')
float gelu_tanh_backward(float input_value, float dy) {
    precise float x = within_16(input_value);
    precise float x_squared = hlx_mul(x, x);
    precise float t = hlx_tanh(gelu_inner(x, x_squared));
    precise float sech_squared = hlx_fma(-t, t, 1.0);
    precise float inner_slope = hlx_mul(HLX_SQRT_2_OVER_PI, hlx_fma(GELU_CUBIC_3, x_squared, 1.0));
    precise float right = hlx_mul(hlx_mul(hlx_mul(0.5, x), sech_squared), inner_slope);
    return hlx_mul(dy, hlx_fma(0.5, hlx_add(1.0, t), right));
}

// x where it is positive, +0 or NaN, else +0; a test on the bits, not the device's max.
float relu_forward(float x) {
    uint bits = floatBitsToUint(x);
    return bits <= HLX_MAGNITUDE || hlx_isnan(x) ? x : 0.0;
}

// dy where x is positive or NaN, else +0.
float relu_backward(float x, float dy) {
    uint bits = floatBitsToUint(x);
    return (bits != 0u && bits <= HLX_MAGNITUDE) || hlx_isnan(x) ? dy : 0.0;
}

// x sigmoid(x)
float silu_forward(float x) { return hlx_mul(x, hlx_sigmoid(x)); }

// dy s (1 + x (1 - s)) with s = sigmoid(x).
float silu_backward(float x, float dy) {
    precise float s = hlx_sigmoid(x);
    return hlx_mul(dy, hlx_mul(s, hlx_fma(x, hlx_sub(1.0, s), 1.0)));
}

// 1 / (1 + exp(-x))
float sigmoid_forward(float x) { return hlx_sigmoid(x); }

// dy e / (1 + e)^2 with e = exp(-|x|), which cancels on neither side.
float sigmoid_backward(float x, float dy) {
    precise float e = hlx_exp(-hlx_abs(x));
    precise float one_plus = hlx_add(1.0, e);
    return hlx_mul(dy, hlx_div(e, hlx_mul(one_plus, one_plus)));
}

float tanh_forward(float x) { return hlx_tanh(x); }

// dy (1 - t^2) with t = tanh(x).
float tanh_backward(float x, float dy) {
    precise float t = hlx_tanh(x);
    return hlx_mul(dy, hlx_fma(-t, t, 1.0));
}

// log(1 + exp(x)), x above 20: max(x, 0) + log(u) + (e - (u - 1)) / u with e = exp(-|x|) and
// u = 1 + e, whose last term is what the rounding of u lost.
float softplus_forward(float x) {
    precise float e = hlx_exp(-hlx_abs(x));
    precise float u = hlx_add(1.0, e);
    precise float lost = hlx_sub(e, hlx_sub(u, 1.0));
    precise float y = hlx_add(x > 0.0 ? x : 0.0, hlx_add(hlx_log(u), hlx_div(lost, u)));
    return x > 20.0 ? x : y;
}

// dy sigmoid(x), dy above 20.
float softplus_backward(float x, float dy) {
    return x > 20.0 ? dy : hlx_mul(dy, hlx_sigmoid(x));
}
