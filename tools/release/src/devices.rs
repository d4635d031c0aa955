//! docs/devices.md: a row for each device that a report in benches/devices has, and for each maker without one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

const REPORTS: &str = "benches/devices";
const PAGE: &str = "docs/devices.md";
const HEAD: &str = include_str!("devices_head.md");
const TAIL: &str = include_str!("devices_tail.md");
/// The number of the form that `hlx doctor --report` writes.
const FORM: u64 = 1;

/// Makers of GPUs that have a row even without a report, their drivers, and what is known of them.
const MAKERS: [[&str; 3]; 4] = [
    [
        "NVIDIA",
        "NVIDIA's driver, Mesa's NVK",
        "no report yet; [digests](reproducibility.md) were compared on an H100 and an H200",
    ],
    ["AMD", "Mesa's RADV, AMD's own", "untried"],
    ["Intel", "Mesa's ANV, Intel's own for Windows", "untried"],
    ["Apple", "MoltenVK, Mesa's Honeykrisp", "untried"],
];

/// A device of a report.
#[derive(Debug)]
struct Device {
    name: String,
    kind: String,
    vendor: String,
    driver: String,
    probe: String,
    golden: String,
    rates: [String; 4],
    made: String,
    file: String,
}

/// Writes the page; with `check`, fails if it is not what the reports give.
///
/// # Errors
/// A report that is malformed, or has what no report may have; a page that is out of date or cannot be written.
pub fn run(root: &Path, check: bool) -> Result<()> {
    let page = page(&read(&root.join(REPORTS))?)?;
    let path = root.join(PAGE);
    if check {
        let is_current = fs::read_to_string(&path).is_ok_and(|old| old == page);
        ensure!(
            is_current,
            "{PAGE} is out of date: run `cargo xtask devices`"
        );
        return Ok(());
    }
    fs::write(&path, page).with_context(|| PAGE.to_owned())
}

/// The devices of all reports, sorted by the reports' names.
fn read(folder: &Path) -> Result<Vec<Device>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    let mut devices = Vec::new();
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(file).with_context(|| name.to_string())?;
        devices.extend(parse(&text, &name).with_context(|| format!("{REPORTS}/{name}"))?);
    }
    Ok(devices)
}

fn parse(text: &str, file: &str) -> Result<Vec<Device>> {
    let report: Value = serde_json::from_str(text)?;
    let form = report["form"].as_u64();
    ensure!(
        form == Some(FORM),
        "has the form {}, expected {FORM}",
        report["form"]
    );
    for word in [
        "uuid",
        "serial",
        "hostname",
        "/home/",
        "/root/",
        "\\\\Users\\\\",
    ] {
        ensure!(
            !text.to_lowercase().contains(&word.to_lowercase()),
            "has {word}, which no report may have"
        );
    }
    let made = format!(
        "{}, hlx {}",
        text_of(&report["date"])?,
        text_of(&report["program"]["version"])?
    );
    let devices = report["devices"].as_array().context("has no devices")?;
    devices
        .iter()
        .map(|found| device(found, &made, file))
        .collect()
}

fn device(found: &Value, made: &str, file: &str) -> Result<Device> {
    let facts = &found["device"];
    let of = |key: &str| text_of(&facts[key]).with_context(|| key.to_owned());
    let checks = found["probe"].as_array().map_or(&[][..], Vec::as_slice);
    let failed: Vec<&str> = checks
        .iter()
        .filter(|check| check["passed"] != true)
        .filter_map(|check| check["name"].as_str())
        .collect();
    let refused = found["error"]
        .as_str()
        .map(|error| format!("refused: {error}"));
    let probe = match (refused, &failed[..]) {
        (Some(refused), _) => refused,
        (None, []) => format!("{} checks passed", checks.len()),
        (None, failed) => format!("failed: {}", failed.join(", ")),
    };
    let golden = match found["golden_equal"].as_bool() {
        Some(true) => "equal",
        Some(false) => "OTHER DIGESTS",
        None => "-",
    };
    let rate = |key: &str| found["rates"][key].as_f64();
    let flops = |key: &str| rate(key).map_or_else(|| "-".to_owned(), |rate| digits(rate / 1e9));
    Ok(Device {
        name: of("name")?,
        kind: of("kind")?,
        vendor: facts["vendor"].as_str().unwrap_or("-").to_owned(),
        driver: of("driver")?,
        probe,
        golden: golden.to_owned(),
        rates: [
            flops("product_flops_per_second"),
            flops("integer_product_flops_per_second"),
            flops("multiply_add_flops_per_second"),
            flops("copy_bytes_per_second"),
        ],
        made: made.to_owned(),
        file: file.to_owned(),
    })
}

fn text_of(value: &Value) -> Result<String> {
    let text = value.as_str().context("a text is missing")?;
    ensure!(
        !text.contains(['|', '\n', '<']),
        "{text}: cannot stand in a table"
    );
    Ok(text.to_owned())
}

/// Three digits at least.
fn digits(number: f64) -> String {
    match number {
        number if number < 10.0 => format!("{number:.2}"),
        number if number < 100.0 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

fn page(devices: &[Device]) -> Result<String> {
    let mut page = HEAD.to_owned();
    page += "| device | maker | driver | probe | golden runs | f32 product | integer product | multiply-adds \
             | copies | made |\n";
    page += "|---|---|---|---|---|---|---|---|---|---|\n";
    for device in devices {
        let [product, integers, peak, copies] = &device.rates;
        let Device {
            name,
            vendor,
            driver,
            probe,
            golden,
            made,
            file,
            ..
        } = device;
        writeln!(
            page,
            "| {name} | {vendor} | {driver} | {probe} | {golden} | {product} | {integers} | {peak} | {copies} | \
             [{made}](../{REPORTS}/{file}) |"
        )?;
    }
    for [maker, drivers, known] in MAKERS {
        let is_tried = |device: &Device| device.vendor == maker && device.kind == "vulkan_gpu";
        if !devices.iter().any(is_tried) {
            writeln!(
                page,
                "| GPUs of {maker} | {maker} | {drivers} | {known} | - | - | - | - | - | - |"
            )?;
        }
    }
    Ok(page + TAIL)
}

#[cfg(test)]
mod tests {
    use super::{page, parse};
    use serde_json::{Value, json};

    fn report() -> Value {
        json!({
            "form": 1, "date": "2026-11-27", "program": { "version": "0.2.0" },
            "devices": [{
                "device": { "name": "Radeon", "kind": "vulkan_gpu", "vendor": "AMD", "driver": "RADV 25" },
                "probe": [{ "name": "fma", "passed": true }], "golden_equal": true,
                "rates": { "product_flops_per_second": 1.234e13, "integer_product_flops_per_second": 9.87e9,
                           "multiply_add_flops_per_second": 5e10, "copy_bytes_per_second": 1e11 },
            }],
        })
    }

    #[test]
    fn a_device_has_a_row_and_a_maker_without_one_is_untried() {
        let devices = parse(&report().to_string(), "amd.json").expect("a report");
        let page = page(&devices).expect("a page");
        let row = "| Radeon | AMD | RADV 25 | 1 checks passed | equal | 12340 | 9.87 | 50.0 | 100 | \
                   [2026-11-27, hlx 0.2.0](../benches/devices/amd.json) |\n";
        assert!(page.contains(row), "{page}");
        assert!(!page.contains("GPUs of AMD") && page.contains("| GPUs of Intel | Intel |"));
        assert_eq!(page.matches("| untried |").count(), 2);
    }

    #[test]
    fn what_differs_or_fails_is_named() {
        let mut report = report();
        report["devices"][0]["golden_equal"] = json!(false);
        report["devices"][0]["probe"][0]["passed"] = json!(false);
        let devices = parse(&report.to_string(), "amd.json").expect("a report");
        assert_eq!(devices[0].golden, "OTHER DIGESTS");
        assert_eq!(devices[0].probe, "failed: fma");
    }

    #[test]
    fn reports_with_personal_data_or_of_another_form_are_refused() {
        let mut personal = report();
        personal["devices"][0]["driver"] = json!("/home/ann/driver");
        let mut other = report();
        other["form"] = json!(2);
        let mut row = report();
        row["devices"][0]["device"]["name"] = json!("a | b");
        for wrong in [personal, other, row, json!({})] {
            let error = parse(&wrong.to_string(), "x.json").expect_err("refused");
            assert!(!format!("{error:#}").contains('\n'));
        }
    }
}
