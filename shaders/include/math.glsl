// HLX's own functions: short sequences of fma, mul, add and integer operations that give the same
// bits on every device and in Rust (hlx_core::arith). Bounds: docs/numerics.md.
#include "arith.glsl"
#include "constants.glsl"

// HLX_HORNER_k continues p, the upper part of a polynomial of x, by the coefficients NAME_k to NAME_0.
#define HLX_HORNER_0(p, x, NAME) p = hlx_fma(p, x, NAME##_0);
#define HLX_HORNER_1(p, x, NAME) p = hlx_fma(p, x, NAME##_1); HLX_HORNER_0(p, x, NAME)
#define HLX_HORNER_2(p, x, NAME) p = hlx_fma(p, x, NAME##_2); HLX_HORNER_1(p, x, NAME)
#define HLX_HORNER_3(p, x, NAME) p = hlx_fma(p, x, NAME##_3); HLX_HORNER_2(p, x, NAME)
#define HLX_HORNER_4(p, x, NAME) p = hlx_fma(p, x, NAME##_4); HLX_HORNER_3(p, x, NAME)
#define HLX_HORNER_5(p, x, NAME) p = hlx_fma(p, x, NAME##_5); HLX_HORNER_4(p, x, NAME)
#define HLX_HORNER_6(p, x, NAME) p = hlx_fma(p, x, NAME##_6); HLX_HORNER_5(p, x, NAME)

#include "divide.glsl"
#include "exp_log.glsl"
#include "sin_cos.glsl"
#include "tanh_erf.glsl"
