//! `hlx-bench blocks`: products with weights in blocks, of few rows and of many, beside the same products of digits.
//!
//! A line is a format and a number of rows: milliseconds, bytes of the weight per second, and TFLOP/s.

use anyhow::{Context as _, Result};
use hlx_core::{Arithmetic, Device};
use hlx_gguf::{Recipe, RecipeModel};
use hlx_kernels::product::blocks::{BLOCK_FORMATS, BlockFormat, BlockRows};
use hlx_kernels::product::{End, Matrices, Operand, Role, multiply};
use hlx_nn::{CausalConfig, NnError, Parameter};

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

/// A matrix of a model's shape in the blocks that a recipe gives it, of values within 0.06.
///
/// # Errors
/// A matrix that has no blocks in the recipe, and what the device reports.
pub fn of_parameter(
    device: &Device,
    config: &CausalConfig,
    recipe: Recipe,
    parameter: &Parameter,
) -> Result<Option<BlockRows>, NnError> {
    let model = RecipeModel {
        n_layers: config.n_layers,
        tied: config.tied_output,
    };
    let name = name_in_files(parameter.name());
    let kind = recipe.kind_of(&name, parameter.shape(), model);
    let (Some(format), &[n, k]) = (BlockFormat::named(kind.name()), parameter.shape()) else {
        return Ok(None);
    };
    let [(least, most), (_, scale)] = [kind.range(), kind.scale_range()];
    let span = i32::from(most) - i32::from(least) + 1;
    let size = f32::from(least.unsigned_abs().max(most.unsigned_abs())) * f32::from(scale);
    let (d, min) = (0.0625 / size.log2().ceil().exp2(), kind.largest_min());
    let rows = BlockRows::new(device, format, [n, k], |row, at, block| {
        let mut word =
            (row as u32).wrapping_mul(0x9e37_79b9) ^ (at as u32).wrapping_mul(0x85eb_ca6b);
        for q in &mut block.q[..format.block] {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let level = i32::from(least) + (word >> 16) as i32 % span;
            *q = match format.bits_of(level as i8) {
                Some(_) => level as i8,
                None => 0,
            };
        }
        (block.scales, block.mins) = ([scale; 16], [min.unwrap_or(0); 16]);
        // As much below zero as above.
        let middle = d * f32::from(most) * f32::from(scale) / 2.0;
        let dmin = min.map_or(0.0, |min| half_of(middle / f32::from(min)));
        (block.d, block.dmin) = (d, dmin);
    })?;
    Ok(Some(rows))
}

/// Rounded towards zero to the bits of an f16, for a number that is normal in it.
fn half_of(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !0x1fff)
}

/// A parameter's name as GGUF files have it, as far as recipes read it.
fn name_in_files(name: &str) -> String {
    match name {
        "model.embed_tokens.weight" => return "token_embd.weight".to_owned(),
        "lm_head.weight" => return "output.weight".to_owned(),
        _ => {}
    }
    let name = name.replace("model.layers.", "blk.");
    let name = name.replace("self_attn.v_proj", "attn_v");
    name.replace("mlp.down_proj", "ffn_down")
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
            // Different blocks for each row and place, with the first integers of the format.
            let integers = (0..=i8::MAX).filter(|q| format.bits_of(*q).is_some());
            let some: Vec<i8> = integers.take(4).collect();
            let blocks = BlockRows::new(&device, format, [n, k], |row, at, block| {
                let integers = block.q.iter_mut().enumerate();
                integers.for_each(|(i, q)| *q = some[(row + 3 * at + i) % some.len()]);
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
