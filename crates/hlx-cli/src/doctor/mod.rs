//! `hlx doctor`: the devices of this machine, and whether their arithmetic is HLX's.

mod advice;
mod rates;
mod report;

use std::path::PathBuf;

use anyhow::Result;
use hlx_core::{Device, DeviceInfo, DeviceKind, container_lacks, why_no_gpu};
use hlx_kernels::product::quantised::instructions;

use self::advice::Advice;
use self::rates::{integer_rate, product_rate, written};
use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Open the device that programs would run on and nothing else, and name what a container lacks for a GPU.
    #[arg(long, conflicts_with = "json")]
    quick: bool,
    /// Train the golden runs on each device, measure a few rates, and write it all to a file without personal data.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "quick"])]
    report: Option<PathBuf>,
    /// With --report: this device alone; may be repeated. The environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", requires = "report")]
    device: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.report {
        return report::run(path, &arguments.device);
    }
    if arguments.quick {
        return quick();
    }
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
                Ok(device) => {
                    let (products, integers) = (product_rate(device)?, integer_rate(device)?);
                    let advice = Advice::of(device, [products, integers]);
                    Ok(serde_json::json!({
                        "info": info, "probe": device.probe(),
                        "integers": instructions(device),
                        "integers_flops_per_second": integers,
                        "products_flops_per_second": products,
                        "recommended": { "arithmetic": advice.arithmetic, "why": advice.why },
                    }))
                }
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
                let (products, rate) = (product_rate(device)?, integer_rate(device)?);
                let advice = Advice::of(device, [products, rate]);
                say!(
                    "  integers    by {}: {}",
                    instructions(device),
                    written(rate)
                )?;
                say!("  arithmetic  {}: {}", advice.arithmetic, advice.why)?;
                for check in &device.probe().checks {
                    let mark = if check.passed { "ok" } else { "FAILED" };
                    say!("  probe       {}: {} ({mark})", check.name, check.finding)?;
                }
            }
        }
    }
    let lacks = container_lacks();
    if lacks.is_empty()
        && let Some(why) = why_no_gpu()
    {
        say!("\nno Vulkan GPU: {why}")?;
    }
    if !lacks.is_empty() {
        say!("")?;
    }
    print_lacks(&lacks)?;
    let chosen = Device::open_from_env("auto")?;
    say!("\nwithout --device, programs run on {}", chosen.info())
}

/// The device that programs run on, and what a container lacks.
///
/// # Errors
/// That device does not open: a container's health check fails.
fn quick() -> Result<()> {
    print_lacks(&container_lacks())?;
    let device = Device::open_from_env("auto")?;
    let info = device.info();
    say!(
        "hlx {} runs on {info}, {}",
        env!("CARGO_PKG_VERSION"),
        info.driver
    )
}

fn print_lacks(lacks: &[String]) -> Result<()> {
    lacks.iter().try_for_each(|lack| say!("container   {lack}"))
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
