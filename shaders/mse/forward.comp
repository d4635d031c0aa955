// Squared error of each element: loss[i] = (x[i] - b[i])^2, x the prediction, b the target.
#define HLX_BINARY
#include "../include/map.glsl"

float apply(float x, float b) {
    precise float difference = hlx_sub(x, b);
    return hlx_mul(difference, difference);
}
