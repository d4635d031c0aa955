//! Push constants of the modules of optimizer.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Adagrad {
    pub count: u32,
    pub row: u32,
    pub rows: u32,
}
pub use {Adagrad as adagrad, Adagrad as adam, Adagrad as average, Adagrad as lion, Adagrad as muon_apply,
    Adagrad as muon_direction, Adagrad as rmsprop, Adagrad as rmsprop_centered,
    Adagrad as rmsprop_centered_momentum, Adagrad as rmsprop_momentum, Adagrad as sgd,
    Adagrad as sgd_momentum};

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ClipFactor {
    pub max_norm: f32,
}
pub use ClipFactor as clip_factor;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Combine {
    pub count: u32,
    pub scalar: f32,
}
pub use Combine as combine;

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct GuardedFactor {
    pub max_norm: f32,
    pub runs: u32,
    pub run: u32,
    pub stride: u32,
}
pub use GuardedFactor as guarded_factor;
