// The activation that the constant KIND picks, by its place in activations.txt; NaN if it is none.
// Written by `cargo xtask shaders`. A shader includes activation.glsl and declares KIND first.

float activation_forward(float x) {
    if (KIND == 0u) return gelu_forward(x);
    if (KIND == 1u) return gelu_tanh_forward(x);
    if (KIND == 2u) return relu_forward(x);
    if (KIND == 3u) return silu_forward(x);
    if (KIND == 4u) return sigmoid_forward(x);
    if (KIND == 5u) return tanh_forward(x);
    if (KIND == 6u) return softplus_forward(x);
    return uintBitsToFloat(HLX_NAN);
}

float activation_backward(float x, float dy) {
    if (KIND == 0u) return gelu_backward(x, dy);
    if (KIND == 1u) return gelu_tanh_backward(x, dy);
    if (KIND == 2u) return relu_backward(x, dy);
    if (KIND == 3u) return silu_backward(x, dy);
    if (KIND == 4u) return sigmoid_backward(x, dy);
    if (KIND == 5u) return tanh_backward(x, dy);
    if (KIND == 6u) return softplus_backward(x, dy);
    return uintBitsToFloat(HLX_NAN);
}
