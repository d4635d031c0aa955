//! `hlx doctor --report`: what a device is and does, as a file to send in. docs/devices.md has its form.
//!
//! The file has nothing of a person or a machine's identity: no names of hosts or users, no paths, no serial numbers,
//! no UUIDs.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use hlx_core::{Device, DeviceInfo, DeviceKind, SPECIFICATION, environment};
use hlx_kernels::product::quantised::instructions;
use hlx_train::golden::{GoldenFile, GoldenRun};
use serde_json::{Map, Value, json};

use super::rates::{Rates, written};
use crate::output::output;
use crate::print::{self, say};

/// The form's number; it counts changes that a reader of the file must know.
const FORM: u32 = 1;

/// Measures the devices, and writes the file.
pub fn run(path: &Path, devices: &[String]) -> Result<()> {
    let out = output(path, &[])?;
    let to_file = !out.is_stdout();
    let mut found = Vec::new();
    for info in chosen(devices)? {
        if to_file {
            print::or_closed(say!("{info}: golden runs and rates ..."))?;
        }
        let report = match Device::open(&info.selector) {
            Ok(device) => of_device(&device)?,
            Err(error) => json!({
                "device": facts(&info), "error": without_paths(&error.to_string()),
            }),
        };
        if to_file {
            print::or_closed(summary(&report))?;
        }
        found.push(report);
    }
    let report = json!({
        "form": FORM,
        "date": today(),
        "program": {
            "version": env!("CARGO_PKG_VERSION"),
            "specification": SPECIFICATION,
            "shaders": hlx_train::run::shaders_digest(),
        },
        "system": { "os": std::env::consts::OS, "architecture": std::env::consts::ARCH },
        "devices": found,
    });
    let text = serde_json::to_string_pretty(&report)? + "\n";
    let written = out.write(text.as_bytes());
    written.with_context(|| format!("{}: cannot be written", path.display()))?;
    if to_file {
        print::or_closed(say!(
            "\nwritten {}: it names no host, no user and no path",
            path.display()
        ))?;
    }
    Ok(())
}

/// The requested devices: the environment's first of all, then the arguments', else all.
fn chosen(devices: &[String]) -> Result<Vec<DeviceInfo>> {
    let all = Device::devices();
    let wanted = match environment::text("HLX_DEVICE")? {
        Some(selector) => vec![selector],
        None => devices.to_vec(),
    };
    if wanted.is_empty() {
        return Ok(all);
    }
    let named = |selector: &String| match Device::open(selector) {
        Ok(device) => Ok(device.info().clone()),
        Err(error) => match all.iter().find(|info| info.selector == *selector) {
            Some(info) => Ok(info.clone()),
            None => bail!("--device {selector}: {error}"),
        },
    };
    wanted.iter().map(named).collect()
}

fn of_device(device: &Device) -> Result<Value> {
    let rates = Rates::of(device)?;
    let (golden, is_equal) = golden(device)?;
    Ok(json!({
        "device": facts(device.info()),
        "limits": limits(device.info()),
        "probe": device.probe().checks,
        "integers": instructions(device).to_string(),
        "golden_equal": is_equal,
        "golden": golden,
        "rates": {
            "size": rates.size,
            "product_flops_per_second": rates.product.round() as u64,
            "integer_product_flops_per_second": rates.integer_product.round() as u64,
            "multiply_add_flops_per_second": rates.multiply_add.round() as u64,
            "copy_bytes_per_second": rates.copy.round() as u64,
        },
    }))
}

fn facts(info: &DeviceInfo) -> Value {
    let ids = info.pci_ids();
    json!({
        "name": info.name,
        "kind": info.kind,
        "vendor": info.vendor(),
        "vendor_id": ids.map(|ids| format!("{:#06x}", ids.0)),
        "device_id": ids.map(|ids| format!("{:#06x}", ids.1)),
        "driver": info.driver,
    })
}

fn limits(info: &DeviceInfo) -> Value {
    let processors = (info.processors > 0).then_some(info.processors);
    if info.kind == DeviceKind::Cpu {
        return json!({
            "memory_bytes": info.memory_bytes, "processors": processors, "subgroup_size": info.subgroup_size,
        });
    }
    json!({
        "memory_bytes": info.memory_bytes,
        "max_binding_bytes": info.max_binding_words * 4,
        "shared_memory_bytes": info.shared_memory_bytes,
        "max_workgroup_invocations": info.max_workgroup_invocations,
        "max_workgroup_size": info.max_workgroup_size,
        "max_push_constant_bytes": info.max_push_constant_bytes,
        "processors": processors,
        "subgroup_size": info.subgroup_size,
    })
}

/// The digests of the golden runs, and whether all are those that HLX was published with.
fn golden(device: &Device) -> Result<(Value, bool)> {
    let expected = GoldenFile::expected()?;
    let (mut runs, mut is_equal) = (Map::new(), true);
    for run in GoldenRun::ALL {
        let digests = run.train(device).context(run.name())?;
        is_equal &= digests == *expected.of(run);
        runs.insert(run.name().to_owned(), json!(digests));
    }
    Ok((Value::Object(runs), is_equal))
}

/// Today's date in UTC, 2026-11-21.
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// A driver's message with its paths left out: they may have a user's name.
fn without_paths(message: &str) -> String {
    let is_path = |word: &str| word.contains('/') || word.contains('\\');
    let words = message.split(' ');
    let words = words.map(|word| if is_path(word) { "(path)" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// What the file says of a device, in lines.
fn summary(report: &Value) -> Result<()> {
    if let Some(error) = report["error"].as_str() {
        return say!("  refused     {error}");
    }
    let rate = |name: &str| report["rates"][name].as_f64().unwrap_or(0.0);
    let checks = report["probe"].as_array().map_or(&[][..], Vec::as_slice);
    let failed = checks.iter().filter(|check| check["passed"] != true);
    say!(
        "  probe       {} checks, {} failed",
        checks.len(),
        failed.count()
    )?;
    let verdict = match report["golden_equal"].as_bool() {
        Some(true) => "equal to the published digests",
        _ => "OTHER DIGESTS than those published",
    };
    say!("  golden      {verdict}")?;
    say!(
        "  products    {} in portable, {} in integer, {} rows, columns and terms",
        written(rate("product_flops_per_second")),
        written(rate("integer_product_flops_per_second")),
        report["rates"]["size"]
    )?;
    say!(
        "  peak        {} in multiply-adds, {:.1} GB/s in copies",
        written(rate("multiply_add_flops_per_second")),
        rate("copy_bytes_per_second") / 1e9
    )
}

#[cfg(test)]
mod tests {
    use super::{today, without_paths};

    #[test]
    fn messages_lose_their_paths_and_nothing_else() {
        let message = r"cannot open /home/ann/.cache/x: denied, C:\Users\ann\x too";
        let expected = "cannot open (path) denied, (path) too";
        assert_eq!(without_paths(message), expected);
        assert_eq!(without_paths("out of memory"), "out of memory");
    }

    #[test]
    fn a_date_has_no_time() {
        let parts: Vec<usize> = today().split('-').map(str::len).collect();
        assert_eq!(parts, [4, 2, 2]);
    }
}
