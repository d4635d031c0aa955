// HLX's own functions: short sequences of fma, mul, add and integer operations that give the same
// bits on every device and in Rust (hlx_core::arith). Bounds: docs/numerics.md.

#include "arith.glsl"
#include "constants.glsl"
#include "divide.glsl"
#include "exp_log.glsl"
#include "sin_cos.glsl"
#include "tanh_erf.glsl"
