// Quotients and remainders. An integer's quotient and remainder by 0 are 0.
#include "../math.glsl"
#include "../rounding.glsl"

float div_f32(float a, float b) { return hlx_div(a, b); }
uint div_u32(uint a, uint b) { return b == 0u ? 0u : a / b; }
uint magnitude_of(int x) { return x < 0 ? 0u - uint(x) : uint(x); }
int div_i32(int a, int b) {
    uint quotient = div_u32(magnitude_of(a), magnitude_of(b));
    return int((a ^ b) < 0 ? 0u - quotient : quotient);
}

uint remainder_u32(uint a, uint b) { return b == 0u ? 0u : a - a / b * b; }
int remainder_i32(int a, int b) {
    if (b == 0) return 0;
    int rest = int(uint(a) - uint(div_i32(a, b)) * uint(b));
    return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}

uint floor_divide_u32(uint a, uint b) { return div_u32(a, b); }
int floor_divide_i32(int a, int b) {
    int quotient = div_i32(a, b);
    bool down = (a ^ b) < 0 && uint(quotient) * uint(b) != uint(a);
    return down && b != 0 ? quotient - 1 : quotient;
}

// a - b trunc(a / b), exactly and with a's sign: the significand of a, moved up by the difference of
// the exponents eight bits at a time, modulo that of b. What would be subnormal is zero.
float remainder_toward_zero(float a, float b) {
    uint sign = floatBitsToUint(a) & HLX_SIGN;
    uint x = floatBitsToUint(a) & HLX_MAGNITUDE;
    uint y = floatBitsToUint(b) & HLX_MAGNITUDE;
    if (x >= HLX_INFINITY || y > HLX_INFINITY || y < HLX_MIN_NORMAL)
        return uintBitsToFloat(HLX_NAN);
    if (x < y) return a;
    uint divisor = (y & 0x007fffffu) | HLX_MIN_NORMAL;
    uint rest = ((x & 0x007fffffu) | HLX_MIN_NORMAL) % divisor;
    for (uint shift = (x >> 23) - (y >> 23); shift > 0u && rest != 0u;) {
        uint step = min(shift, 8u);
        rest = (rest << step) % divisor;
        shift -= step;
    }
    uint top = uint(findMSB(rest | 1u));
    uint exponent = (y >> 23) + top; // and 23 too many
    bool zero = rest == 0u || exponent <= 23u;
    uint bits = ((exponent - 23u) << 23) | ((rest << (23u - top)) & 0x007fffffu);
    return uintBitsToFloat(sign | (zero ? 0u : bits));
}

bool crosses_zero(float rest, float b) {
    bool zero = (floatBitsToUint(rest) & HLX_MAGNITUDE) == 0u;
    return !zero && ((floatBitsToUint(rest) ^ floatBitsToUint(b)) & HLX_SIGN) != 0u;
}

float remainder_f32(float a, float b) {
    precise float rest = remainder_toward_zero(a, b);
    return crosses_zero(rest, b) ? hlx_add(rest, b) : rest;
}

// The quotient of what the remainder leaves, one less where that has the other sign, rounded
// to the whole number that it is next to.
float floor_divide_f32(float a, float b) {
    if ((floatBitsToUint(b) & HLX_MAGNITUDE) == 0u) return hlx_div(a, b);
    precise float rest = remainder_toward_zero(a, b);
    precise float quotient = hlx_div(hlx_sub(a, rest), b);
    quotient = crosses_zero(rest, b) ? hlx_sub(quotient, 1.0) : quotient;
    precise float whole = hlx_floor(quotient);
    whole = hlx_sub(quotient, whole) > 0.5 ? hlx_add(whole, 1.0) : whole;
    bool zero = (floatBitsToUint(quotient) & HLX_MAGNITUDE) == 0u;
    uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & HLX_SIGN;
    return zero ? uintBitsToFloat(sign) : whole;
}
