// Every input of exp2, expm1, log2, log10 and log1p.
#version 450
#include "../include/functions.glsl"
#include "every.glsl"

float apply(uint word) {
    float x = uintBitsToFloat(word);
    switch (FUNCTION) {
    case 13u: return hlx_exp2(x);
    case 14u: return hlx_expm1(x);
    case 15u: return hlx_log2(x);
    case 16u: return hlx_log10(x);
    case 17u: return hlx_log1p(x);
    default: return uintBitsToFloat(HLX_NAN);
    }
}
