//! A training step, recorded once and replayed: a small network that separates two spirals.
//!
//! `cargo run --release --example 04_recorded_step`
#![allow(clippy::print_stdout)] // An example shows what it computes.

use hlx::prelude::*;

/// Points of each spiral.
const POINTS: usize = 128;

fn main() -> Result<()> {
    let accuracy = train(&Device::open_from_env("auto")?, 600)?;
    println!("{:.1}% of the points are on their side", 100.0 * accuracy);
    Ok(())
}

/// Points \[2 POINTS, 2\] and their spirals, 0 and 1.
fn spirals(device: &Device) -> Result<(Tensor, Tensor)> {
    let angle = Tensor::linspace(device, 0.5, 5.0, POINTS)?;
    let arm = Tensor::stack(&[&angle.cos()?.mul(&angle)?, &angle.sin()?.mul(&angle)?], 1)?;
    let points = Tensor::cat(&[&arm, &arm.neg()?], 0)?.mul(0.25)?;
    let labels = (0..2 * POINTS as u32).map(|point| point / POINTS as u32);
    let labels = Tensor::from_slice(device, &labels.collect::<Vec<_>>(), &[2 * POINTS])?;
    Ok((points, labels))
}

/// Trains for some steps and returns the share of points on the right side.
fn train(device: &Device, steps: usize) -> Result<f32> {
    let (points, labels) = spirals(device)?;
    let drawn = |shape: &[usize], seed: u64| {
        let bound = 1.0 / (shape[1] as f32).sqrt();
        Ok::<_, Error>(
            Tensor::randn(device, shape, seed)?
                .mul(bound)?
                .with_gradient(),
        )
    };
    let mut weights = [
        drawn(&[48, 2], 1)?,
        drawn(&[48, 48], 2)?,
        drawn(&[2, 48], 3)?,
    ];
    let logits = |weights: &[Tensor; 3]| {
        let hidden = points.linear(&weights[0], None)?.sin()?;
        hidden
            .linear(&weights[1], None)?
            .tanh()?
            .linear(&weights[2], None)
    };
    // Nothing in the body waits for the device: it is recorded, not run.
    let (step, loss) = device.record(|| {
        let loss =
            logits(&weights)?.cross_entropy_loss(&labels, &CrossEntropyOptions::default())?;
        loss.backward()?;
        for weight in &mut weights {
            let gradient = weight.grad().expect("a gradient");
            no_grad(|| weight.sub_(gradient.mul(0.5)?).map(drop))?;
        }
        Ok::<_, Error>(loss.detach())
    })?;
    for count in 1..=steps {
        step.replay()?;
        if count % 200 == 0 {
            println!("step {count}: loss {loss}");
        }
    }
    let read = no_grad(|| logits(&weights))?
        .argmax(Some(1), false)?
        .to_vec::<u32>()?;
    let labels = labels.to_vec::<u32>()?;
    let right = read
        .iter()
        .zip(&labels)
        .filter(|(read, label)| read == label);
    Ok(right.count() as f32 / labels.len() as f32)
}

#[test]
fn it_learns_on_every_device_to_the_same_bits() -> Result<()> {
    let shares = hlx::device::testing::own_devices();
    let shares = shares
        .iter()
        .map(|device| train(device, 200))
        .collect::<Result<Vec<_>>>()?;
    assert!(shares[0] > 0.7, "{shares:?}");
    assert!(shares.iter().all(|share| *share == shares[0]));
    Ok(())
}
