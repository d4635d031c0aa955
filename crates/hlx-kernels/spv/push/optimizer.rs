//! Push constants of the modules of optimizer.

blocks! {
    adagrad, adam, average, lion, muon_apply, muon_direction, rmsprop, rmsprop_centered,
    rmsprop_centered_momentum, rmsprop_momentum, sgd, sgd_momentum {
        count: u32, row: u32, rows: u32
    }
    clip_factor { max_norm: f32 }
    combine { count: u32, scalar: f32 }
    guarded_factor { max_norm: f32, runs: u32, run: u32, stride: u32 }
}
