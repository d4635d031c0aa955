// Addition in place: y[i] = y[i] + x[i].
#define HLX_IN_PLACE
#include "../include/map.glsl"

float apply(float x, float y) { return hlx_add(y, x); }
