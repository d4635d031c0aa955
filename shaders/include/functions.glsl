// All functions of HLX's arithmetic: those of math.glsl, and those that no training kernel calls.
// These stay apart, so that training kernels' modules don't change when one of them does.
// Bounds: docs/numerics.md.
#include "math.glsl"
#include "arc.glsl"
#include "exp_log_variants.glsl"
#include "pow.glsl"
#include "sinh_cosh.glsl"
#include "tan.glsl"
