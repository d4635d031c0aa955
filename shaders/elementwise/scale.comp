// A tensor times a number known on the host: y[i] = x[i] * scalar.
#include "../include/map.glsl"

float apply(float x) { return hlx_mul(x, push.scalar); }
