// Unary operations that divide.
#include "../math.glsl"

float reciprocal_f32(float x) { return hlx_div(1.0, x); }

// x clamp(x + 3, 0, 6) / 6; NaN stays.
float hardswish_f32(float x) {
    precise float shifted = hlx_add(x, 3.0);
    precise float gate = shifted < 0.0 ? 0.0 : (shifted > 6.0 ? 6.0 : shifted);
    return hlx_div(hlx_mul(x, gate), 6.0);
}
