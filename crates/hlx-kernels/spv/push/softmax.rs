//! Push constants of the modules of softmax.

blocks! {
    backward, backward_held, forward, forward_held { rows: u32, cols: u32 }
}
