// Powers of two operands.
#include "../functions.glsl"

float pow_f32(float a, float b) { return hlx_pow(a, b); }

// By repeated squaring; wraps.
uint pow_u32(uint a, uint b) {
    uint power = 1u;
    for (; b != 0u; b >>= 1) {
        power = (b & 1u) != 0u ? power * a : power;
        a *= a;
    }
    return power;
}

// An exponent below 0 gives 1 / a^-b without its fraction, and 0 of 0.
int pow_i32(int a, int b) {
    if (b >= 0) return int(pow_u32(uint(a), uint(b)));
    if (a == 1) return 1;
    return a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
}
