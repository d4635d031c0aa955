//! The kinds of activation, written by `cargo xtask shaders` from
//! `shaders/include/activations.txt`.

shader!(activation::{
    gelu_forward, gelu_backward, gelu_tanh_forward, gelu_tanh_backward, relu_forward, relu_backward,
    silu_forward, silu_backward, sigmoid_forward, sigmoid_backward, tanh_forward, tanh_backward,
    softplus_forward, softplus_backward,
});

/// Calls `each!` with a line for every kind: its documentation, name, variant, and formulas, which
/// are also the names of the shaders.
#[doc(hidden)] // For the methods of tensors in hlx-autograd.
#[macro_export]
macro_rules! for_each_activation {
    ($each:ident) => {
        $each! {
            /// Computes x Phi(x) by the error function: `torch.nn.GELU()`.
            gelu GELU gelu_forward gelu_backward;
            /// Computes GELU's approximation by tanh: `torch.nn.GELU(approximate="tanh")`.
            gelu_tanh GELUTanh gelu_tanh_forward gelu_tanh_backward;
            /// Computes max(x, 0): `torch.nn.ReLU()`.
            relu ReLU relu_forward relu_backward;
            /// Computes x sigmoid(x): `torch.nn.SiLU()`.
            silu SiLU silu_forward silu_backward;
            /// Computes 1 / (1 + exp(-x)): `torch.nn.Sigmoid()`.
            sigmoid Sigmoid sigmoid_forward sigmoid_backward;
            /// Computes the hyperbolic tangent: `torch.nn.Tanh()`.
            tanh Tanh tanh_forward tanh_backward;
            /// Computes log(1 + exp(x)), and x above 20: `torch.nn.Softplus()`.
            softplus Softplus softplus_forward softplus_backward;
        }
    };
}
