// The gradient of any activation in place of its input: y[i] = x[i] f'(y[i]), where f is KIND.
#include "../include/activation.glsl"

// The activation, by its place in activations.txt.
layout(constant_id = 0) const uint KIND = 0;
#include "../include/activation_kinds.glsl"
#define HLX_IN_PLACE
#include "../include/map.glsl"

float apply(float x, float y) { return activation_backward(y, x); }
