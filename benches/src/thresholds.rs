//! `hlx-bench thresholds`: products of few rows on either side of each threshold of [`ProductTuning`] that chooses their
//! kernels, so that a device shows where it lies.
//!
//! A line is one product, timed with the threshold below it and above it; where the quotient passes 1 is where the
//! threshold belongs. The other thresholds are as the device has them.

use anyhow::{Context as _, Result, bail};
use hlx_core::{Buffer, DType, Device};
use hlx_kernels::elementwise::copy_strided;
use hlx_kernels::product::{FloatProduct, MatMul, Prologue};
use hlx_kernels::{KernelTuning, Layout, Operand, ProductTuning};

use crate::maker::Maker;
use crate::measure::Ready;
use crate::say;

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// How weights are stored: bf16, f16 or f32.
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    dtype: String,
    /// few_rows_split_up_to, few_rows_wide_from or prologue_up_to; all by default.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Seconds a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// Few sizes, to see that everything works.
    #[arg(long)]
    quick: bool,
}

/// A threshold with the products that tell where it lies.
struct Threshold {
    name: &'static str,
    /// What the product takes with the threshold out of its reach, and within.
    ways: [&'static str; 2],
    /// Moves the threshold so that no product passes it, or that each does.
    set: fn(&mut ProductTuning, bool),
    /// What comes before the product.
    before: Before,
    /// Rows and columns of C, and terms.
    products: fn(usize) -> Vec<[usize; 3]>,
}

#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    RmsNorm,
    Gate,
}

/// Columns and terms of products of a model shaped like Qwen3-0.6B, and of one with 4,096 columns.
const WEIGHTS: [[usize; 2]; 5] = [
    [1024, 1024],
    [2048, 1024],
    [3072, 1024],
    [1024, 3072],
    [4096, 4096],
];

fn with_rows(rows: &[usize]) -> Vec<[usize; 3]> {
    let of = |m: usize| WEIGHTS.map(|[n, k]| [m, n, k]);
    rows.iter().flat_map(|&m| of(m)).collect()
}

const THRESHOLDS: [Threshold; 4] = [
    Threshold {
        name: "few_rows_split_up_to",
        ways: ["tiles", "few rows"],
        set: |tuning, within| {
            tuning.few_rows_split_up_to = if within { usize::MAX } else { 0 };
            tuning.few_rows_split_groups = [usize::MAX; 2];
        },
        before: Before::Nothing,
        products: |_| with_rows(&[17, 24, 32, 48, 64, 96, 128, 192, 256]),
    },
    Threshold {
        name: "few_rows_wide_from",
        ways: ["8 columns", "16 columns"],
        set: |tuning, within| tuning.few_rows_wide_from = [if within { 0 } else { usize::MAX }; 2],
        before: Before::Nothing,
        products: |processors| {
            let columns = [4, 8, 12, 16, 24, 32, 64].map(|a_processor| a_processor * processors);
            let of = |n: usize| [1, 2, 4, 8].map(|m| [m, n, 1024]);
            columns.into_iter().flat_map(of).collect()
        },
    },
    Threshold {
        name: "prologue_up_to",
        ways: ["norm apart", "norm within"],
        set: |tuning, within| tuning.prologue_up_to = if within { usize::MAX } else { 0 },
        before: Before::RmsNorm,
        products: |_| with_rows(&[1, 2, 3, 4, 6, 8, 12, 16]),
    },
    Threshold {
        name: "prologue_up_to",
        ways: ["gate apart", "gate within"],
        set: |tuning, within| tuning.prologue_up_to = if within { usize::MAX } else { 0 },
        before: Before::Gate,
        products: |_| with_rows(&[1, 2, 3, 4, 6, 8, 12, 16]),
    },
];

/// Measures, and prints a line per product.
///
/// # Errors
/// What the device reports; a device without kernels of few rows, and a type that weights do not have.
pub fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::open(&arguments.device)?;
    if device.is_cpu() {
        bail!("the CPU device has no kernels of few rows; name a Vulkan device");
    }
    let dtype: DType = match arguments.dtype.as_str() {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        "f32" => DType::F32,
        other => bail!("weights are stored as bf16, f16 or f32, not {other}"),
    };
    say!("{}, {}", device.info(), device.info().driver);
    let wanted = |threshold: &&Threshold| {
        let only = arguments.only.as_deref();
        only.is_none_or(|name| name == threshold.name)
    };
    for threshold in THRESHOLDS.iter().filter(wanted) {
        let [outside, within] = threshold.ways;
        let now = &KernelTuning::of(&device).products;
        say!(
            "\n{} (split {} and {:?}, wide {:?}, prologue {}), weights of {dtype}",
            threshold.name,
            now.few_rows_split_up_to,
            now.few_rows_split_groups,
            now.few_rows_wide_from,
            now.prologue_up_to
        );
        say!(
            "{:>6} {:>6} {:>6} {outside:>12} us {within:>12} us  quotient",
            "rows",
            "n",
            "k"
        );
        let products = (threshold.products)(device.tuning().processors);
        let count = if arguments.quick { 2 } else { products.len() };
        for product in products.into_iter().take(count) {
            let [outside, within] = [false, true].map(|within| {
                let mut tuning = KernelTuning::of(&device).clone();
                (threshold.set)(&mut tuning.products, within);
                let tuned = tuning.on(&device)?;
                time(&tuned, threshold.before, product, dtype, arguments.seconds)
            });
            let [outside, within] = [1e3 * outside?, 1e3 * within?];
            let [m, n, k] = product;
            let quotient = within / outside;
            say!("{m:>6} {n:>6} {k:>6} {outside:>12.2}    {within:>12.2}     {quotient:>8.3}");
        }
    }
    Ok(())
}

/// Milliseconds of a product in a row of them.
fn time(
    device: &Device,
    before: Before,
    [m, n, k]: [usize; 3],
    dtype: DType,
    seconds: f64,
) -> Result<f64> {
    let maker = Maker(device);
    let (a, up, gain) = (maker.values(m * k)?, maker.values(m * k)?, maker.values(k)?);
    let b = stored(device, &maker.values(n * k)?, dtype)?;
    let c = maker.empty(m * n)?;
    let shape = MatMul {
        trans_b: true,
        ..MatMul::new(m, n, k)
    };
    let on = device.clone();
    let launches = Box::new(move || {
        let prologue = match before {
            Before::Nothing => None,
            Before::RmsNorm => Some(Prologue::RmsNorm {
                gain: &gain,
                eps: 1e-6,
            }),
            Before::Gate => Some(Prologue::Gated { up: &up }),
        };
        FloatProduct {
            prologue,
            ..FloatProduct::new([&a, &b], &c, shape)
        }
        .run(&on)
    });
    Ready::Launches(launches)
        .run_in_a_row(device, seconds)
        .with_context(|| format!("a product of {m} x {n} x {k}"))
}

/// The values in a type.
fn stored(device: &Device, values: &Buffer, dtype: DType) -> Result<Buffer> {
    let out = device.alloc_typed(dtype, values.len())?;
    let x = Operand {
        buffer: values,
        layout: &Layout::contiguous(&[values.len()])?,
    };
    copy_strided(device, x, &out)?;
    Ok(out)
}
