//! Push constants of the modules of rope.

blocks! {
    rope { rows: u32, heads: u32, width: u32, pairs: u32, inverse: u32, scale: f32 }
}
