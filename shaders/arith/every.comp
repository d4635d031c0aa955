// Every input of the functions that kernels use, of inputs themselves and of random words.
#version 450
#include "../include/random.glsl"
#include "every.glsl"

float apply(uint word) {
    float x = uintBitsToFloat(word);
    switch (FUNCTION) {
    case 1u: return hlx_div(1.0, x);
    case 2u: return hlx_sqrt(x);
    case 3u: return hlx_rsqrt(x);
    case 4u: return hlx_exp(x);
    case 5u: return hlx_log(x);
    case 6u: return hlx_sigmoid(x);
    case 7u: return hlx_tanh(x);
    case 8u: return hlx_erf(x);
    case 9u: return hlx_sin(x);
    case 10u: return hlx_cos(x);
    case 11u: return hlx_pos0(hlx_load(x));
    case 12u: return hlx_uniform(word);
    default: return uintBitsToFloat(HLX_NAN);
    }
}
