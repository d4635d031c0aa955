//! The kinds of activation, written by `cargo xtask shaders` from
//! `shaders/include/activations.txt`.

shader!(gelu_forward_shader, activation::gelu_forward);
shader!(gelu_backward_shader, activation::gelu_backward);
shader!(gelu_tanh_forward_shader, activation::gelu_tanh_forward);
shader!(gelu_tanh_backward_shader, activation::gelu_tanh_backward);
shader!(relu_forward_shader, activation::relu_forward);
shader!(relu_backward_shader, activation::relu_backward);
shader!(silu_forward_shader, activation::silu_forward);
shader!(silu_backward_shader, activation::silu_backward);
shader!(sigmoid_forward_shader, activation::sigmoid_forward);
shader!(sigmoid_backward_shader, activation::sigmoid_backward);
shader!(tanh_forward_shader, activation::tanh_forward);
shader!(tanh_backward_shader, activation::tanh_backward);
shader!(softplus_forward_shader, activation::softplus_forward);
shader!(softplus_backward_shader, activation::softplus_backward);

/// Calls `each!` with a line for every kind: its documentation, name, variant, formulas and
/// shaders.
#[doc(hidden)] // For the methods of tensors in hlx-autograd.
#[macro_export]
macro_rules! for_each_activation {
    ($each:ident) => {
        $each! {
            /// Computes x Phi(x) by the error function: `torch.nn.GELU()`.
            gelu GELU gelu_forward gelu_backward gelu_forward_shader gelu_backward_shader;
            /// Computes GELU's approximation by tanh: `torch.nn.GELU(approximate="tanh")`.
            gelu_tanh GELUTanh gelu_tanh_forward gelu_tanh_backward gelu_tanh_forward_shader gelu_tanh_backward_shader;
            /// Computes max(x, 0): `torch.nn.ReLU()`.
            relu ReLU relu_forward relu_backward relu_forward_shader relu_backward_shader;
            /// Computes x sigmoid(x): `torch.nn.SiLU()`.
            silu SiLU silu_forward silu_backward silu_forward_shader silu_backward_shader;
            /// Computes 1 / (1 + exp(-x)): `torch.nn.Sigmoid()`.
            sigmoid Sigmoid sigmoid_forward sigmoid_backward sigmoid_forward_shader sigmoid_backward_shader;
            /// Computes the hyperbolic tangent: `torch.nn.Tanh()`.
            tanh Tanh tanh_forward tanh_backward tanh_forward_shader tanh_backward_shader;
            /// Computes log(1 + exp(x)), and x above 20: `torch.nn.Softplus()`.
            softplus Softplus softplus_forward softplus_backward softplus_forward_shader softplus_backward_shader;
        }
    };
}
