// Unary operations made of compares, bits and a multiplication.

float neg_f32(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ HLX_SIGN); }
uint neg_int(uint x) { return 0u - x; }

float abs_f32(float x) { return hlx_abs(x); }
int abs_i32(int x) { return x < 0 ? int(0u - uint(x)) : x; } // the least integer stays
uint abs_u32(uint x) { return x; }

float square_f32(float x) { return hlx_mul(x, x); }
uint square_int(uint x) { return x * x; }

// By bits: lavapipe 22.3.6 makes -0 of +0 where 1, -1 and 0 are selected by comparisons.
float sign_f32(float x) {
    uint bits = floatBitsToUint(x);
    bool none = (bits & HLX_MAGNITUDE) == 0u || hlx_isnan(x);
    return uintBitsToFloat(none ? 0u : (bits & HLX_SIGN) | 0x3f800000u);
}
int sign_i32(int x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); }
uint sign_u32(uint x) { return x == 0u ? 0u : 1u; }

// x where it is positive, +0 or NaN, else +0; a test on the bits.
float relu_f32(float x) {
    return floatBitsToUint(x) <= HLX_MAGNITUDE || hlx_isnan(x) ? x : 0.0;
}
int relu_i32(int x) { return x < 0 ? 0 : x; }
uint relu_u32(uint x) { return x; }

float leaky_relu_f32(float x, float slope, float unused) {
    return x > 0.0 ? x : hlx_mul(x, slope);
}

// The upper bound where the bounds cross; NaN of any NaN.
float clamp_f32(float x, float low, float high) {
    precise float above = x < low ? low : x;
    precise float within = above > high ? high : above;
    return hlx_isnan(low) || hlx_isnan(high) ? uintBitsToFloat(HLX_NAN) : within;
}
int clamp_i32(int x, int low, int high) { return min(max(x, low), high); }
uint clamp_u32(uint x, uint low, uint high) { return min(max(x, low), high); }

bool isnan_f32(float x) { return hlx_isnan(x); }
bool isnan_int(uint x) { return false; }
bool isfinite_f32(float x) { return (floatBitsToUint(x) & HLX_MAGNITUDE) < HLX_INFINITY; }
bool isfinite_int(uint x) { return true; }
bool logical_not_f32(float x) { return x == 0.0; }
bool logical_not_int(uint x) { return x == 0u; }
uint bitwise_not_int(uint x) { return ~x; }
