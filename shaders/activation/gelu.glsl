// What both forms of GELU share: constants, the argument of the tanh, the range of derivatives.

const float INV_SQRT_2 = 0.70710677;      // 1 / sqrt(2)
const float INV_SQRT_2_PI = 0.3989423;    // 1 / sqrt(2 pi)
const float SQRT_2_OVER_PI = 0.7978846;   // sqrt(2 / pi)
const float GELU_CUBIC = 0.044715;
const float GELU_CUBIC_3 = 0.134145;      // 3 * 0.044715

// sqrt(2/pi) (x + 0.044715 x^3)
float gelu_inner(float x, float x_squared) {
    return hlx_mul(hlx_mul(SQRT_2_OVER_PI, x), hlx_fma(GELU_CUBIC, x_squared, 1.0));
}

// Within [-16, 16]: both derivatives are 0 or 1 beyond, and x^2 cannot overflow. NaN stays.
float within_16(float x) { return x > 16.0 ? 16.0 : (x < -16.0 ? -16.0 : x); }
