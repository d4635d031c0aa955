//! Push constants of the modules of fill.

blocks! {
    band, linspace, ramp, random { count: u32, first: u32, parameters: [u32; 6] }
}
