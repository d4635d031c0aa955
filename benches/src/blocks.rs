//! `hlx-bench blocks`: products with weights in blocks, of few rows and of many, beside the same products of digits.
//!
//! A line is a format and a number of rows: milliseconds, bytes of the weight per second, and TFLOP/s.

use anyhow::{Context as _, Result};
use hlx_core::{Arithmetic, Device};
use hlx_kernels::product::blocks::{BLOCK_FORMATS, BlockFormat, BlockRows};
use hlx_kernels::product::{End, Matrices, Operand, Role, multiply};

use crate::maker::Maker;
use crate::measure::Ready;
use crate::say;

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The formats, by the names that files have for them; without one, all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    format: Vec<String>,
    /// Rows of the left operand; several are measured one after the other.
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1,4,16,512"
    )]
    rows: Vec<usize>,
    /// Rows and columns of the weight.
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 2, default_values_t = [4096, 4096])]
    weight: Vec<usize>,
    /// Seconds a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2)]
    seconds: f64,
}

/// Measures, and prints a line per format and number of rows.
///
/// # Errors
/// A format that there is not, a weight that is no multiple of its blocks, and what the device reports.
pub fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::open_from_env(&arguments.device)?.with_arithmetic(Arithmetic::Integer);
    say!("{}, {}", device.info(), device.info().driver);
    let &[n, k] = &arguments.weight[..] else {
        anyhow::bail!("--weight: expected its rows and its columns");
    };
    let named = |name: &String| {
        BlockFormat::named(name).with_context(|| format!("--format: {name} is no format of blocks"))
    };
    let formats: Vec<&BlockFormat> = match arguments.format.is_empty() {
        true => BLOCK_FORMATS.iter().collect(),
        false => arguments.format.iter().map(named).collect::<Result<_>>()?,
    };
    let weight = Maker(&device).values(n * k)?;
    let digits = Operand::new(&device, Role::Weight, &weight, Matrices::rows(1, n, k))?;
    say!(
        "weight {n} x {k}\n{:<8} {:>6} {:>10} {:>10} {:>10}",
        "format",
        "rows",
        "ms",
        "GB/s",
        "TFLOP/s"
    );
    for &rows in &arguments.rows {
        line(
            &device,
            arguments.seconds,
            ("integer", n * k),
            &digits,
            [rows, n, k],
        )?;
        for format in &formats {
            // Different blocks for each row and place, with integers that every format has.
            let blocks = BlockRows::new(&device, format, [n, k], |row, at, block| {
                let integers = block.q.iter_mut().enumerate();
                integers.for_each(|(i, q)| *q = ((row + 3 * at + i) % 4) as i8);
                (block.d, block.dmin) = (0.0625, 0.125);
            })?;
            let bytes = blocks.n_bytes();
            line(
                &device,
                arguments.seconds,
                (format.name, bytes),
                &Operand::Blocks(blocks),
                [rows, n, k],
            )?;
        }
    }
    Ok(())
}

fn line(
    device: &Device,
    seconds: f64,
    (name, bytes): (&str, usize),
    weight: &Operand,
    [rows, n, k]: [usize; 3],
) -> Result<()> {
    let maker = Maker(device);
    let x = maker.values(rows * k)?;
    let x = Operand::new(device, Role::Signal, &x, Matrices::rows(1, rows, k))?;
    let (c, on, weight) = (maker.empty(rows * n)?, device.clone(), weight.clone());
    let launches = move || multiply(&on, [&x, &weight], End::NONE, &c);
    let ms = Ready::Launches(Box::new(launches)).run_in_a_row(device, seconds)?;
    let (rate, flops) = (1e-6 * bytes as f64 / ms, 2e-9 * (rows * n * k) as f64 / ms);
    say!("{name:<8} {rows:>6} {ms:>10.4} {rate:>10.1} {flops:>10.3}");
    Ok(())
}
