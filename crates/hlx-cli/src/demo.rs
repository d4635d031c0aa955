//! `hlx demo`: small experiments through the real kernels.

use anyhow::Result;
use clap::Subcommand;

use crate::DeviceArgument;
use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Subcommand)]
enum Demo {
    /// Learn the weight of w * relu(x) by gradient descent: HLX's founding experiment.
    Scalar(DeviceArgument),
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.demo {
        Demo::Scalar(device) => scalar(device),
    }
}

fn scalar(device: &DeviceArgument) -> Result<()> {
    let device = device.open()?;
    say!("{}", device.info())?;
    let mut printed = Ok(());
    let last = hlx_train::demo::scalar(&device, |epoch| {
        let loss = shortened(epoch.loss);
        let next = say!(
            "epoch {:>3}  loss {loss:>12}  w {:.6}",
            epoch.number,
            epoch.weight
        );
        if printed.is_ok() {
            printed = next;
        }
    })?;
    printed?;
    say!(
        "w = {:.6} after {} epochs, bits {:#010x}",
        last.weight,
        last.number,
        last.weight.to_bits()
    )
}

/// Three decimals, or as many as a small loss needs.
fn shortened(loss: f32) -> String {
    if loss >= 0.001 {
        format!("{loss:.3}")
    } else {
        format!("{loss:.3e}")
    }
}
