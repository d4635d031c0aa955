//! Push constants of the modules of dropout.

blocks! {
    dropout { batch: u32, per_sample: u32, seed_low: u32, seed_high: u32, purpose: u32, p: f32, factor: f32 }
}
