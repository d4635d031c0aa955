//! `hlx doctor`: the devices of this machine, and whether their arithmetic is HLX's.

use anyhow::Result;
use hlx_core::{Context, DeviceInfo, DeviceKind};

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let opened: Vec<_> = Context::devices()
        .into_iter()
        .map(|info| {
            let context = Context::open(&info.selector);
            (info, context)
        })
        .collect();
    if arguments.json {
        let devices: Vec<_> = opened
            .iter()
            .map(|(info, context)| match context {
                Ok(context) => serde_json::json!({ "info": info, "probe": context.probe() }),
                Err(error) => serde_json::json!({ "info": info, "error": error.to_string() }),
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&devices)?);
        return Ok(());
    }
    println!("hlx {}", env!("CARGO_PKG_VERSION"));
    println!("shaders {}", hlx_train::run::shaders_digest());
    for (info, context) in &opened {
        print_device(info);
        match context {
            Err(error) => println!("  refused     {error}"),
            Ok(context) => {
                println!("  integers    by {}", context.tuning().products.integers);
                for check in &context.probe().checks {
                    let mark = if check.passed { "ok" } else { "FAILED" };
                    println!("  probe       {}: {} ({mark})", check.name, check.finding);
                }
            }
        }
    }
    let chosen = Context::open_from_env("auto")?;
    println!("\nwithout --device, programs run on {}", chosen.info());
    Ok(())
}

fn print_device(info: &DeviceInfo) {
    let kind = match info.kind {
        DeviceKind::Cpu => "CPU device",
        DeviceKind::VulkanGpu => "GPU",
        DeviceKind::VulkanSoftware => "software Vulkan driver",
    };
    println!("\n{} [{}]", info.name, info.selector);
    println!("  kind        {kind}");
    println!("  driver      {}", info.driver);
    println!(
        "  memory      {:.1} GiB",
        info.memory_bytes as f64 / f64::from(1 << 30)
    );
    println!(
        "  binding     at most {:.1} GiB",
        info.max_binding_words as f64 * 4.0 / f64::from(1 << 30)
    );
    if info.kind != DeviceKind::Cpu {
        println!(
            "  workgroup   at most {} invocations",
            info.max_workgroup_invocations
        );
        println!(
            "  shared      {} KiB for a workgroup",
            info.shared_memory_bytes / 1024
        );
    }
    println!("  subgroup    {}", info.subgroup_size);
}
