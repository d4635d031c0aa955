//! What a device does per second: products in both arithmetics, multiply-adds and copies.

use std::time::Instant;

use anyhow::Result;
use hlx_core::{Buffer, Device, DeviceKind};
use hlx_kernels::product::quantised::{
    Digits, IntegerProduct, Preparation, Prepared, integer_product,
};
use hlx_kernels::product::{Epilogue, MatMul, matmul};

/// Measured rates of a device.
pub struct Rates {
    /// Rows, columns and terms of the products.
    pub size: usize,
    /// Operations of f32 per second in a product, arithmetic `portable`.
    pub product: f64,
    /// The same in the arithmetic `integer`, its operands prepared.
    pub integer_product: f64,
    /// Operations per second of multiply-adds alone.
    pub multiply_add: f64,
    /// Bytes per second of a copy, those read and those written.
    pub copy: f64,
}

impl Rates {
    /// Measures them, in a second or two on a GPU.
    ///
    /// # Errors
    /// What the device reports.
    pub fn of(device: &Device) -> Result<Self> {
        let peak = hlx_proof::peak::measure(device)?;
        Ok(Self {
            size: size_of(device),
            product: product_rate(device)?,
            integer_product: integer_rate(device)?,
            multiply_add: peak.flops,
            copy: peak.bytes,
        })
    }
}

/// Rows, columns and terms of a product that takes milliseconds.
fn size_of(device: &Device) -> usize {
    match device.info().kind {
        DeviceKind::VulkanGpu => 4096,
        DeviceKind::Cpu => 1024,
        DeviceKind::VulkanSoftware => 256,
    }
}

/// The rate of products over integers, their operands prepared: operations of f32 a second, the best of a few runs.
pub fn integer_rate(device: &Device) -> Result<f64> {
    let n = size_of(device);
    let x = ones(device, n)?;
    let prepared = |digits| {
        let rows = Preparation::of_rows(n, n, digits).laid_for(device);
        Prepared::new(device, &x, rows)
    };
    let (a, b) = (prepared(Digits::Two)?, prepared(Digits::One)?);
    let shape = IntegerProduct::new(n, n, n);
    best(device, n, || {
        integer_product(device, [&a, &b], None, &x, &shape, Epilogue::None)?;
        Ok(())
    })
}

/// The rate of products of f32, the best of a few runs.
pub fn product_rate(device: &Device) -> Result<f64> {
    let n = size_of(device);
    let (a, b, c) = (ones(device, n)?, ones(device, n)?, ones(device, n)?);
    let shape = MatMul::new(n, n, n);
    best(device, n, || {
        matmul(device, &a, &b, None, &c, &shape)?;
        Ok(())
    })
}

/// A square matrix of ones.
fn ones(device: &Device, n: usize) -> Result<Buffer> {
    let x = device.alloc_shape(&[n, n])?;
    hlx_kernels::elementwise::fill(device, 1.0, &x)?;
    Ok(x)
}

/// Operations per second in the fastest of some runs of a product.
fn best(device: &Device, n: usize, mut product: impl FnMut() -> Result<()>) -> Result<f64> {
    const RUNS: usize = 3;
    let mut seconds = f64::INFINITY;
    // The first run makes the pipeline.
    for run in 0..=RUNS {
        device.sync()?;
        let start = Instant::now();
        product()?;
        device.sync()?;
        if run > 0 {
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
    }
    Ok((2 * n * n * n) as f64 / seconds)
}

/// A rate in TFLOP/s, or in GFLOP/s below one.
pub fn written(flops_per_second: f64) -> String {
    match flops_per_second / 1e12 {
        rate if rate < 1.0 => format!("{:.1} GFLOP/s", 1e3 * rate),
        rate => format!("{rate:.1} TFLOP/s"),
    }
}
