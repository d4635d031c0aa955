//! Push constants of the modules of elementwise.

blocks! {
    add_assign, binary, scale, scale_by { count: u32, scalar: f32 }
}
