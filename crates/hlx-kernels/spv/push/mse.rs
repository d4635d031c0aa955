//! Push constants of the modules of mse.

blocks! {
    backward, forward { count: u32, scalar: f32 }
}
