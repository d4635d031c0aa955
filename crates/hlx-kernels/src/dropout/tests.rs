//! Dropout: the share of zeros, and masks that depend on the sample alone.

use super::*;
use crate::testing::{normal, run_everywhere};

const P: f32 = 0.3;

fn config(batch: usize, time: usize, width: usize) -> Dropout {
    Dropout {
        p: P,
        seed: 0x1234_5678_9abc_def0,
        purpose: 7,
        batch,
        time,
        width,
    }
}

/// Runs dropout on every device for the samples from `base` on.
fn masked(x: &[f32], config: Dropout, step: u32, base: u32) -> Vec<f32> {
    let mut got = run_everywhere("dropout", |device, mem| {
        let input = mem.input(device, x)?;
        let counter = mem.input_u32(device, &[step, base])?;
        let y = mem.output(device, x.len())?;
        dropout(device, &input, &y, &counter, &config)?;
        Ok(vec![y])
    });
    got.remove(0)
}

#[test]
fn the_share_of_zeros_and_the_scale_are_right() {
    for (batch, time, width) in [(1, 1, 1), (3, 5, 7), (2, 33, 31), (4, 64, 65)] {
        let n = batch * time * width;
        let y = masked(&vec![2.0; n], config(batch, time, width), 3, 0);
        let staying = y.iter().filter(|y| **y != 0.0).count();
        let deviation = (staying as f64 - 0.7 * n as f64) / (0.21 * n as f64).sqrt();
        assert!(deviation.abs() < 5.0, "{staying} of {n} stay");
        assert!(y.iter().all(|y| *y == 0.0 || (*y - 2.0 / 0.7).abs() < 1e-6));
    }
}

/// The mask of a sample is the same in any batch and at any padded length.
#[test]
fn the_mask_depends_on_the_sample_alone() {
    let (batch, time, width) = (6, 9, 7);
    let per_sample = time * width;
    let x = normal(1, batch * per_sample);
    let whole = masked(&x, config(batch, time, width), 11, 40);
    for (base, n) in [(0, 2), (2, 1), (3, 3)] {
        let piece = &x[base * per_sample..(base + n) * per_sample];
        let got = masked(piece, config(n, time, width), 11, 40 + base as u32);
        assert_eq!(got, whole[base * per_sample..(base + n) * per_sample]);
    }
    let longer = time + 4;
    let mut padded = vec![0.0; batch * longer * width];
    for (sample, row) in x.chunks(per_sample).zip(padded.chunks_mut(longer * width)) {
        row[..per_sample].copy_from_slice(sample);
    }
    let got = masked(&padded, config(batch, longer, width), 11, 40);
    for (row, want) in got.chunks(longer * width).zip(whole.chunks(per_sample)) {
        assert_eq!(&row[..per_sample], want);
    }
}

#[test]
fn step_purpose_and_seed_change_the_mask() {
    let x = vec![1.0; 400];
    let base = config(1, 20, 20);
    let first = masked(&x, base, 0, 0);
    assert_eq!(first, masked(&x, base, 0, 0));
    assert_ne!(first, masked(&x, base, 1, 0));
    assert_ne!(first, masked(&x, base, 0, 1));
    assert_ne!(first, masked(&x, Dropout { purpose: 8, ..base }, 0, 0));
    assert_ne!(
        first,
        masked(
            &x,
            Dropout {
                seed: base.seed ^ (1 << 40),
                ..base
            },
            0,
            0
        )
    );
}

#[test]
fn the_ends_of_the_range_keep_all_and_nothing() {
    let x = normal(2, 100);
    let base = config(1, 10, 10);
    assert_eq!(masked(&x, Dropout { p: 0.0, ..base }, 0, 0), x);
    assert_eq!(masked(&x, Dropout { p: 1.0, ..base }, 0, 0), vec![0.0; 100]);
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let (x, y) = (
        device.alloc(100).expect("memory"),
        device.alloc(100).expect("memory"),
    );
    let counter = device.buffer_of::<u32>(&[0, 0]).expect("memory");
    let error = dropout(&device, &x, &y, &counter, &Dropout { p: 1.5, ..base })
        .expect_err("no probability");
    assert_eq!(
        error.to_string(),
        "dropout: p is 1.5, expected a probability from 0 to 1"
    );
}
