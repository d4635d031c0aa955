//! Push constants of the modules of activation.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Push {
    pub count: u32,
    pub scalar: f32,
}
pub use {Push as backward_in_place, Push as gelu_backward, Push as gelu_forward, Push as gelu_tanh_backward,
    Push as gelu_tanh_forward, Push as relu_backward, Push as relu_forward, Push as sigmoid_backward,
    Push as sigmoid_forward, Push as silu_backward, Push as silu_forward, Push as softplus_backward,
    Push as softplus_forward, Push as tanh_backward, Push as tanh_forward};
