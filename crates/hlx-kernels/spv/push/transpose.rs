//! Push constants of the modules of transpose.

blocks! {
    transpose { rows: u32, columns: u32 }
}
