//! Steps of the optimizers, with their state on the device and in the host's memory.

use std::time::Instant;

use anyhow::Result;
use hlx_core::Device;
use hlx_nn::{
    Adafactor, AdafactorConfig, AdamW, AdamW8bit, AdamWConfig, Init, Lion, LionConfig, Optimizer,
    ParameterBuilder, Weights,
};

use crate::say;
use crate::statistics::median;

/// Times steps of optimizers over matrices of 1,024 by 1,024 parameters.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, cpu, vulkan or vulkan:N.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Matrices, each of 1,048,576 parameters.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8192))]
    matrices: u32,
    /// Timed steps of each.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

const SIDE: usize = 1024;

type Make = fn(&Weights) -> hlx_nn::Result<Box<dyn Optimizer>>;

const OPTIMIZERS: [(&str, Make); 4] = [
    ("AdamW", |weights| {
        Ok(Box::new(AdamW::new(weights, AdamWConfig::default())?))
    }),
    ("AdamW8bit", |weights| {
        Ok(Box::new(AdamW8bit::new(weights, AdamWConfig::default())?))
    }),
    ("Adafactor", |weights| {
        Ok(Box::new(Adafactor::new(
            weights,
            AdafactorConfig::default(),
        )?))
    }),
    ("Lion", |weights| {
        Ok(Box::new(Lion::new(weights, LionConfig::default())?))
    }),
];

/// Prints a table.
///
/// # Errors
/// A device without the memory, and what it reports.
pub fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::open(&arguments.device)?;
    let millions = f64::from(arguments.matrices) * (SIDE * SIDE) as f64 / 1e6;
    say!("{}: {millions:.1} million parameters", device.info().name);
    say!(
        "| optimizer | bytes of state per parameter | ms per step | with the state in the host's memory |"
    );
    say!("|---|---|---|---|");
    for (name, make) in OPTIMIZERS {
        let mut cells = Vec::new();
        let mut bytes = 0.0;
        for offloads in [false, true] {
            let weights = weights(&device, arguments.matrices as usize)?;
            if offloads {
                weights.offload_state();
            }
            let mut optimizer = make(&weights)?;
            let words: usize = optimizer
                .buffers()
                .iter()
                .map(|(_, buffer)| buffer.len())
                .sum();
            bytes = 4.0 * words as f64 / weights.n_elements() as f64;
            cells.push(time(&device, &weights, optimizer.as_mut(), arguments.runs)?);
        }
        say!(
            "| {name} | {bytes:.2} | {:.2} | {:.2} |",
            cells[0],
            cells[1]
        );
    }
    Ok(())
}

/// Matrices with gradients of a half.
fn weights(device: &Device, n: usize) -> Result<Weights> {
    let mut builder = ParameterBuilder::new();
    for matrix in 0..n {
        builder.parameter(&format!("matrix.{matrix}"), &[SIDE, SIDE], Init::Ones);
    }
    let weights = builder.build(device, 0)?;
    for parameter in weights.parameters() {
        parameter.tensor()?.sum()?.backward()?;
    }
    Ok(weights)
}

/// The median of some steps after two others, in milliseconds.
fn time(
    device: &Device,
    weights: &Weights,
    optimizer: &mut dyn Optimizer,
    runs: u32,
) -> Result<f64> {
    optimizer.step(weights, 1e-3)?;
    optimizer.prepare(1e-3)?;
    let (graph, ()) = device.record(|| optimizer.update(weights))?;
    graph.replay()?;
    device.sync()?;
    let mut times = Vec::new();
    for _ in 0..runs {
        optimizer.prepare(1e-3)?;
        device.sync()?;
        let start = Instant::now();
        graph.replay()?;
        device.sync()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&times))
}
