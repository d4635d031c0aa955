//! Push constants of the modules of cross_entropy.

blocks! {
    backward { rows: u32, vocabulary: u32, hit: f32, spread: f32 }
    forward { rows: u32, vocabulary: u32, keep: f32, spread: f32 }
}
