//! `hlx doctor`: the devices of this machine, and whether their arithmetic is HLX's.

use std::time::Instant;

use anyhow::Result;
use hlx_core::{Device, DeviceInfo, DeviceKind, why_no_gpu};
use hlx_kernels::product::Epilogue;
use hlx_kernels::product::quantised::{
    Digits, IntegerProduct, Preparation, Prepared, instructions, integer_product,
};

use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let opened: Vec<_> = Device::devices()
        .into_iter()
        .map(|info| {
            let device = Device::open(&info.selector);
            (info, device)
        })
        .collect();
    if arguments.json {
        let devices: Vec<serde_json::Value> = opened
            .iter()
            .map(|(info, device)| match device {
                Ok(device) => Ok(serde_json::json!({
                    "info": info, "probe": device.probe(),
                    "integers": instructions(device),
                    "integers_flops_per_second": integer_rate(device)?,
                })),
                Err(error) => Ok(serde_json::json!({ "info": info, "error": error.to_string() })),
            })
            .collect::<Result<_>>()?;
        say!("{}", serde_json::to_string_pretty(&devices)?)?;
        return Ok(());
    }
    say!("hlx {}", env!("CARGO_PKG_VERSION"))?;
    say!("shaders {}", hlx_train::run::shaders_digest())?;
    for (info, device) in &opened {
        print_device(info)?;
        match device {
            Err(error) => say!("  refused     {error}")?,
            Ok(device) => {
                let rate = integer_rate(device)?;
                say!(
                    "  integers    by {}: {}",
                    instructions(device),
                    written(rate)
                )?;
                for check in &device.probe().checks {
                    let mark = if check.passed { "ok" } else { "FAILED" };
                    say!("  probe       {}: {} ({mark})", check.name, check.finding)?;
                }
            }
        }
    }
    if let Some(why) = why_no_gpu() {
        say!("\nno Vulkan GPU: {why}")?;
    }
    let chosen = Device::open_from_env("auto")?;
    say!("\nwithout --device, programs run on {}", chosen.info())
}

/// The rate of products over integers, their operands prepared: operations of f32 a second, the best of a few runs.
fn integer_rate(device: &Device) -> Result<f64> {
    const RUNS: usize = 3;
    let n = match device.info().kind {
        DeviceKind::VulkanGpu => 4096,
        DeviceKind::Cpu => 1024,
        DeviceKind::VulkanSoftware => 256,
    };
    let x = device.alloc_shape(&[n, n])?;
    hlx_kernels::elementwise::fill(device, 1.0, &x)?;
    let a = Prepared::new(
        device,
        &x,
        Preparation::of_rows(n, n, Digits::Two).laid_for(device),
    )?;
    let b = Prepared::new(
        device,
        &x,
        Preparation::of_rows(n, n, Digits::One).laid_for(device),
    )?;
    let shape = IntegerProduct::new(n, n, n);
    let mut seconds = f64::INFINITY;
    // The first run makes the pipeline.
    for run in 0..=RUNS {
        device.sync()?;
        let start = Instant::now();
        integer_product(device, [&a, &b], None, &x, &shape, Epilogue::None)?;
        device.sync()?;
        if run > 0 {
            seconds = seconds.min(start.elapsed().as_secs_f64());
        }
    }
    Ok((2 * n * n * n) as f64 / seconds)
}

/// A rate in TFLOP/s, or in GFLOP/s below one.
fn written(flops_per_second: f64) -> String {
    match flops_per_second / 1e12 {
        rate if rate < 1.0 => format!("{:.1} GFLOP/s", 1e3 * rate),
        rate => format!("{rate:.1} TFLOP/s"),
    }
}

fn print_device(info: &DeviceInfo) -> Result<()> {
    let kind = match info.kind {
        DeviceKind::Cpu => "CPU device",
        DeviceKind::VulkanGpu => "GPU",
        DeviceKind::VulkanSoftware => "software Vulkan driver",
    };
    say!("\n{} [{}]", info.name, info.selector)?;
    say!("  kind        {kind}")?;
    say!("  driver      {}", info.driver)?;
    say!(
        "  memory      {:.1} GiB",
        info.memory_bytes as f64 / f64::from(1 << 30)
    )?;
    say!(
        "  binding     at most {:.1} GiB",
        info.max_binding_words as f64 * 4.0 / f64::from(1 << 30)
    )?;
    if info.kind != DeviceKind::Cpu {
        say!(
            "  workgroup   at most {} invocations",
            info.max_workgroup_invocations
        )?;
        say!(
            "  shared      {} KiB for a workgroup",
            info.shared_memory_bytes / 1024
        )?;
    }
    say!("  subgroup    {}", info.subgroup_size)
}
