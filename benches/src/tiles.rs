//! `hlx-bench tiles`: the products of a training step of a transformer by each tile that the device's tuning has, so that
//! the tuning's rates can be judged and completed.
//!
//! A line is one product: TFLOP/s by each tile, and which one the tuning takes.

use anyhow::{Context as _, Result};
use hlx_core::{Arithmetic, Device};
use hlx_kernels::product::{End, Matrices, Operand, Role, multiply};
use hlx_kernels::{KernelTuning, ProductTile};

use crate::maker::Maker;
use crate::measure::Ready;
use crate::say;

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// What products are computed in: portable, integer, fast (bf16) or fast_f16.
    #[arg(long, value_name = "NAME", default_value = "portable")]
    arithmetic: Arithmetic,
    /// Tokens of a step; several are measured one after the other.
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "2048,4096"
    )]
    tokens: Vec<usize>,
    /// Columns of the model's hidden states.
    #[arg(long, value_name = "N", default_value_t = 768)]
    width: usize,
    /// Shards of a batch, which a weight's gradient is computed by.
    #[arg(long, value_name = "N", default_value_t = 8)]
    shards: usize,
    /// Seconds a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.05)]
    seconds: f64,
}

/// The operands of a product with their roles.
#[derive(Clone, Copy)]
struct Product {
    pass: &'static str,
    operands: [(Role, Matrices); 2],
    /// Matrices, rows and columns of C, and terms.
    sizes: [usize; 4],
}

impl Product {
    /// The three products of a linear layer.
    fn of_layer(tokens: usize, [n, k]: [usize; 2], shards: usize) -> [Self; 3] {
        let per_shard = tokens / shards;
        let rows = |columns| Matrices::rows(1, tokens, columns);
        let of_shards = |columns| Matrices::shards([shards, per_shard], columns);
        [
            Self {
                pass: "forward",
                operands: [
                    (Role::Signal, rows(k)),
                    (Role::Weight, Matrices::rows(1, n, k)),
                ],
                sizes: [1, tokens, n, k],
            },
            Self {
                pass: "input's gradient",
                operands: [
                    (Role::Gradient, rows(n)),
                    (Role::Weight, Matrices::columns(1, n, k)),
                ],
                sizes: [1, tokens, k, n],
            },
            Self {
                pass: "weight's gradient",
                operands: [(Role::Gradient, of_shards(n)), (Role::Saved, of_shards(k))],
                sizes: [shards, n, k, per_shard],
            },
        ]
    }

    /// TFLOP/s in a row of launches.
    fn rate(&self, device: &Device, seconds: f64) -> Result<f64> {
        let [batch, m, n, k] = self.sizes;
        let maker = Maker(device);
        let lens = [batch * m * k, batch * n * k];
        let mut operands = Vec::new();
        for ((role, of), len) in self.operands.into_iter().zip(lens) {
            operands.push(Operand::new(device, role, &maker.values(len)?, of)?);
        }
        let (c, on) = (maker.empty(batch * m * n)?, device.clone());
        let launches = move || multiply(&on, [&operands[0], &operands[1]], End::NONE, &c);
        let ms = Ready::Launches(Box::new(launches))
            .run_in_a_row(device, seconds)
            .with_context(|| format!("a product of {batch} x {m} x {n} x {k}"))?;
        Ok(2e-9 * (batch * m * n * k) as f64 / ms)
    }
}

/// Measures, and prints a line per product.
///
/// # Errors
/// What the device reports, and tokens that the shards do not divide.
pub fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::open(&arguments.device)?.in_arithmetic(arguments.arithmetic)?;
    say!("{}, {}", device.info(), device.info().driver);
    let (width, shards) = (arguments.width, arguments.shards.max(1));
    let layers = [[3, 1], [1, 1], [4, 1], [1, 4]].map(|layer| layer.map(|n| n * width));
    for &tokens in &arguments.tokens {
        if !tokens.is_multiple_of(shards) {
            anyhow::bail!("{tokens} tokens are not cut by {shards} shards");
        }
        let tiles = tiles_of(&device, arguments.arithmetic);
        let names: Vec<_> = tiles
            .iter()
            .map(|tile| format!("{:>10}", name(tile)))
            .collect();
        say!(
            "\n{tokens} tokens, {:<42}{} {:>10}",
            "TFLOP/s",
            names.join(" "),
            "as tuned"
        );
        for layer in layers {
            for product in Product::of_layer(tokens, layer, shards) {
                let mut rates = Vec::new();
                for tile in &tiles {
                    let tuned = with_tile(&device, arguments.arithmetic, tile)?;
                    rates.push(format!(
                        "{:>10.1}",
                        product.rate(&tuned, arguments.seconds)?
                    ));
                }
                let tuned = product.rate(&device, arguments.seconds)?;
                let [batch, m, n, k] = product.sizes;
                let sizes = format!("{batch} x {m} x {n} x {k}");
                let (pass, rates) = (product.pass, rates.join(" "));
                say!("{pass:<18} {sizes:<36}{rates} {tuned:>10.1}");
            }
        }
    }
    Ok(())
}

fn name(tile: &ProductTile) -> String {
    let steps = if tile.short_steps { "s" } else { "" };
    format!("{}x{}{steps}", tile.rows, tile.columns)
}

/// The tiles of the device's tuning, those of chains with the shorter steps, too.
fn tiles_of(device: &Device, arithmetic: Arithmetic) -> Vec<ProductTile> {
    let products = &KernelTuning::of(device).products;
    match arithmetic {
        Arithmetic::Portable => {}
        Arithmetic::Integer => return products.integer_tiles.clone(),
        Arithmetic::Fast(_) => return products.half_tiles.clone(),
    }
    let mut tiles: Vec<ProductTile> = Vec::new();
    for tile in &products.tiles {
        let is_there = |one: &ProductTile| (one.rows, one.columns) == (tile.rows, tile.columns);
        if tiles.iter().any(is_there) {
            continue;
        }
        let steps = |short_steps| ProductTile {
            short_steps,
            ..tile.clone()
        };
        tiles.push(steps(false));
        if tile.rows <= 64 && tile.columns <= 64 {
            tiles.push(steps(true));
        }
    }
    tiles
}

/// A handle whose products take one tile.
fn with_tile(device: &Device, arithmetic: Arithmetic, tile: &ProductTile) -> Result<Device> {
    let mut tuning = KernelTuning::of(device).clone();
    let tiles = match arithmetic {
        Arithmetic::Integer => &mut tuning.products.integer_tiles,
        Arithmetic::Fast(_) => &mut tuning.products.half_tiles,
        Arithmetic::Portable => &mut tuning.products.tiles,
    };
    *tiles = vec![tile.clone()];
    Ok(tuning.on(device)?)
}
