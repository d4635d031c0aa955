// One of two operands by a condition: out[i] = condition[i] ? a[i] : b[i].
#define HLX_OPERANDS 3
#include "../include/elements.glsl"

uint apply(uint condition, uint a, uint b) { return condition != 0u ? a : b; }
