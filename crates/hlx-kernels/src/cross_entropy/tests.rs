//! Cross-entropy on every device and against f64.

use super::*;
use crate::testing::{assert_close, ids, normal, run_everywhere, values};

const SHAPES: [(usize, usize); 9] = [
    (3, 1),
    (7, 31),
    (8, 32),
    (9, 33),
    (1, 127),
    (33, 128),
    (2, 129),
    (5, 1009),
    (3, 4100),
];
const SCALE: f32 = 0.37;

fn targets(rows: usize, vocabulary: usize) -> Vec<u32> {
    let mut targets = ids(5, rows, vocabulary as u32);
    for row in (1..rows).step_by(3) {
        targets[row] = IGNORE_INDEX;
    }
    targets
}

/// Returns loss_rows, stats, dlogits.
fn forward_and_backward(
    logits: &[f32],
    targets: &[u32],
    vocabulary: usize,
    smoothing: f32,
) -> Vec<Vec<f32>> {
    let rows = targets.len();
    run_everywhere("cross_entropy", |device, mem| {
        let x = mem.input(device, logits)?;
        let targets = mem.input_u32(device, targets)?;
        let scale = mem.input(device, &[SCALE])?;
        let loss = mem.output(device, rows)?;
        let stats = mem.output(device, rows * 2)?;
        let dx = mem.output(device, rows * vocabulary)?;
        cross_entropy_forward(
            device, &x, &targets, &loss, &stats, rows, vocabulary, smoothing,
        )?;
        cross_entropy_backward(
            device, &x, &targets, &stats, &scale, &dx, rows, vocabulary, smoothing,
        )?;
        Ok(vec![loss, stats, dx])
    })
}

/// The definition in f64: a row's loss and the gradient of `SCALE` times it.
fn reference(x: &[f32], target: u32, smoothing: f32) -> (f64, Vec<f64>) {
    if target == IGNORE_INDEX {
        return (0.0, vec![0.0; x.len()]);
    }
    let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = x.iter().map(|&x| f64::from(x - top).exp()).sum();
    let log_p: Vec<f64> = x.iter().map(|&x| f64::from(x - top) - sum.ln()).collect();
    let e = f64::from(smoothing);
    let n = x.len() as f64;
    let loss = (1.0 - e) * -log_p[target as usize] - e / n * log_p.iter().sum::<f64>();
    let gradient = log_p.iter().enumerate().map(|(v, log_p)| {
        let hit = if v == target as usize { 1.0 - e } else { 0.0 };
        f64::from(SCALE) * (log_p.exp() - hit - e / n)
    });
    (loss, gradient.collect())
}

#[test]
fn agrees_with_f64_on_every_device() {
    for (rows, cols) in SHAPES {
        let logits = normal(1, rows * cols);
        let targets = targets(rows, cols);
        for smoothing in [0.0, 0.1] {
            let got = forward_and_backward(&logits, &targets, cols, smoothing);
            for (row, &target) in targets.iter().enumerate() {
                let range = row * cols..(row + 1) * cols;
                let (loss, gradient) = reference(&logits[range.clone()], target, smoothing);
                assert_close("loss", &got[0][row..=row], &[loss], 2e-6, 1e-6);
                assert_close("dlogits", &got[2][range], &gradient, 2e-6, 2e-7);
            }
        }
    }
}

#[test]
fn awkward_values_have_equal_bits() {
    for (rows, cols) in SHAPES {
        let logits = values(3, rows * cols);
        forward_and_backward(&logits, &targets(rows, cols), cols, 0.1);
    }
}

#[test]
fn ignored_rows_are_positive_zero_and_foreign_targets_are_nan() {
    let cols = 40;
    let logits = normal(8, 3 * cols);
    let got = forward_and_backward(&logits, &[IGNORE_INDEX, 40, 39], cols, 0.0);
    assert_eq!(got[0][0].to_bits(), 0);
    assert!(got[2][..cols].iter().all(|dx| dx.to_bits() == 0));
    assert!(got[0][1].is_nan());
    assert!(got[2][cols..2 * cols].iter().all(|dx| dx.is_nan()));
    assert!(got[0][2].is_finite());
}

#[test]
fn smoothing_out_of_range_is_named() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let x = device.buffer_of(&[0.0; 4]).expect("buffer");
    let row = device.buffer_of(&[0.0; 1]).expect("buffer");
    let stats = device.buffer_of(&[0.0; 2]).expect("buffer");
    let error = cross_entropy_forward(&device, &x, &row, &row, &stats, 1, 4, 1.5)
        .expect_err("smoothing is too large");
    assert_eq!(
        error.to_string(),
        "cross_entropy_forward: label_smoothing is 1.5, expected at least 0 and below 1"
    );
}

#[test]
fn a_recorded_gradient_takes_the_memory_of_its_logits() -> Result<()> {
    let (rows, vocabulary) = (64, 1000);
    let values = normal(1, rows * vocabulary);
    let classes: Vec<u32> = (0..rows as u32).map(|row| row * 7 % 1000).collect();
    let mut gradients = Vec::new();
    // Their own: while one is recording, no other test may use it.
    for device in &hlx_core::testing::own_devices() {
        let (x, targets) = (
            device.buffer_of(&values)?,
            device.buffer_of::<u32>(&classes)?,
        );
        let scale = device.buffer_of(&[0.25])?;
        let out = device.alloc(values.len())?;
        let (graph, ()) = device.record(|| -> Result<()> {
            let (logits, dlogits) = (device.alloc(values.len())?, device.alloc(values.len())?);
            let (losses, stats) = (device.alloc(rows)?, device.alloc(2 * rows)?);
            device.copy(&x, &logits)?;
            cross_entropy_forward(
                device, &logits, &targets, &losses, &stats, rows, vocabulary, 0.0,
            )?;
            cross_entropy_backward(
                device, &logits, &targets, &stats, &scale, &dlogits, rows, vocabulary, 0.0,
            )?;
            Ok(device.copy(&dlogits, &out)?)
        })?;
        let bytes = values.len() as u64 * 4;
        let held = graph.memory().held_bytes;
        match device.is_cpu() {
            false => assert!((bytes..bytes + 4096).contains(&held), "{held} of {bytes}"),
            true => assert!(held >= 2 * bytes, "{held} of {bytes}"),
        }
        // Twice: the logits are computed anew by each replay.
        for _ in 0..2 {
            graph.replay()?;
            gradients.push(device.download_words(&out)?);
        }
    }
    assert!(gradients.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}
