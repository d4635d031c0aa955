//! Push constants of the modules of activation.

blocks! {
    backward_in_place, gelu_backward, gelu_forward, gelu_tanh_backward, gelu_tanh_forward, relu_backward,
    relu_forward, sigmoid_backward, sigmoid_forward, silu_backward, silu_forward, softplus_backward,
    softplus_forward, tanh_backward, tanh_forward {
        count: u32, scalar: f32
    }
}
