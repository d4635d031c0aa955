// A strided operand in row-major order, converted to the output's type: out[i] = x[i].
#define HLX_OPERANDS 1
#include "../include/elements.glsl"

uint apply(uint x) { return x; }
