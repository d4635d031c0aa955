// The functions of HLX's arithmetic that no training kernel needs, beside those of math.glsl: apart,
// since a compiler keeps the constants of functions that a shader includes and does not call.
// Bounds: docs/numerics.md.
#ifndef HLX_FUNCTIONS_GLSL
#define HLX_FUNCTIONS_GLSL

#include "math.glsl"
#include "arc.glsl"
#include "exp_log_variants.glsl"
#include "pow.glsl"
#include "sinh_cosh.glsl"
#include "tan.glsl"

#endif
