// Every input of tan, asin, acos, atan, sinh and cosh.
#version 450
#include "../include/functions.glsl"
#include "every.glsl"

float apply(uint word) {
    float x = uintBitsToFloat(word);
    switch (FUNCTION) {
    case 18u: return hlx_tan(x);
    case 19u: return hlx_asin(x);
    case 20u: return hlx_acos(x);
    case 21u: return hlx_atan(x);
    case 22u: return hlx_sinh(x);
    case 23u: return hlx_cosh(x);
    default: return uintBitsToFloat(HLX_NAN);
    }
}
