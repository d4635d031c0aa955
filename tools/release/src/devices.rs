//! docs/devices.md: a row for each device that a report in benches/devices has, and for each maker without one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

const REPORTS: &str = "benches/devices";
const PAGE: &str = "docs/devices.md";
const HEAD: &str = include_str!("devices_head.md");
const TAIL: &str = include_str!("devices_tail.md");
/// The number of the form that `hlx doctor --report` writes.
const FORM: u64 = 1;

/// The digests of the golden runs that HLX is published with.
const GOLDEN: &str = include_str!("../../../crates/hlx-train/golden.json");
/// The members of a report, as `hlx doctor --report` writes them and docs/devices.md lists them, and of the objects in
/// it: any other was added by hand, or names what no report may.
const MEMBERS: [(&str, &[&str]); 8] = [
    ("report", &["form", "date", "program", "system", "devices"]),
    ("program", &["version", "specification", "shaders"]),
    ("system", &["os", "architecture"]),
    (
        "devices",
        &[
            "device",
            "limits",
            "probe",
            "integers",
            "golden_equal",
            "golden",
            "rates",
            "error",
        ],
    ),
    (
        "device",
        &["name", "kind", "vendor", "vendor_id", "device_id", "driver"],
    ),
    (
        "limits",
        &[
            "memory_bytes",
            "max_binding_bytes",
            "shared_memory_bytes",
            "max_workgroup_invocations",
            "max_workgroup_size",
            "max_push_constant_bytes",
            "processors",
            "subgroup_size",
        ],
    ),
    ("probe", &["name", "finding", "passed"]),
    ("rates", &RATES),
];
const RATES: [&str; 5] = [
    "size",
    "product_flops_per_second",
    "integer_product_flops_per_second",
    "multiply_add_flops_per_second",
    "copy_bytes_per_second",
];

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
    check_members(&report, "report")?;
    check_texts(&report)?;
    let (date, program) = (text_of(&report["date"])?, &report["program"]);
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let has = |text: &str, mark: char, n: usize| {
        text.split(mark).count() == n && text.split(mark).all(is_digits)
    };
    ensure!(
        has(&date, '-', 3) && date.len() == 10,
        "date: {date} is no day, expected such as 2026-11-27"
    );
    let version = text_of(&program["version"]).context("program.version")?;
    ensure!(
        has(&version, '.', 3),
        "program.version: {version} is no version"
    );
    ensure!(
        is_digest(&program["shaders"]),
        "program.shaders: is no SHA-256"
    );
    let made = format!("{date}, hlx {version}");
    let devices = report["devices"].as_array().context("has no devices")?;
    ensure!(!devices.is_empty(), "has no devices");
    devices
        .iter()
        .map(|found| device(found, &made, file))
        .collect()
}

/// Fails for a member that the form does not have.
fn check_members(value: &Value, name: &str) -> Result<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|one| check_members(one, name)),
        Value::Object(members) => {
            let known = MEMBERS.iter().find(|(of, _)| *of == name);
            for (member, value) in members {
                // The golden runs are compared by their names.
                if let Some((_, known)) = known {
                    ensure!(
                        known.contains(&&member[..]),
                        "{name}: has the member {member:?}, which the form does not have"
                    );
                    check_members(value, member)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Fails for a text that names a path or a person.
fn check_texts(value: &Value) -> Result<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(check_texts),
        Value::Object(members) => members.values().try_for_each(check_texts),
        Value::String(text) => {
            let is_address = |word: &str| {
                let parts = word.split_once('@');
                parts.is_some_and(|(name, host)| {
                    !name.is_empty() && host.starts_with(char::is_alphabetic) && host.contains('.')
                })
            };
            let is_path = |word: &str| {
                (word.starts_with('/') && word.len() > 1)
                    || word.contains('\\')
                    || word.starts_with("~/")
            };
            let wrong = text
                .split_whitespace()
                .find(|word| is_path(word) || is_address(word));
            match wrong {
                Some(word) => bail!("has the text {word:?}, which no report may have"),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn is_digest(value: &Value) -> bool {
    let is_hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    value.as_str().is_some_and(is_hex)
}

/// Fails unless a device that was opened has its probe, its rates, and of the golden runs the digests that its verdict
/// is about.
fn check_measured(found: &Value) -> Result<()> {
    let checks = found["probe"].as_array().map_or(&[][..], Vec::as_slice);
    let is_check = |check: &Value| check["name"].is_string() && check["passed"].is_boolean();
    ensure!(
        !checks.is_empty() && checks.iter().all(is_check),
        "probe: has no checks, or one without a name and a verdict"
    );
    for rate in RATES {
        let value = found["rates"][rate].as_f64();
        ensure!(
            value.is_some_and(|value| value > 0.0),
            "rates.{rate}: is {}, expected a number above 0",
            found["rates"][rate]
        );
    }
    let published: Value = serde_json::from_str(GOLDEN)?;
    let runs = found["golden"].as_object().context("golden: is missing")?;
    ensure!(!runs.is_empty(), "golden: names no run");
    let mut is_equal = true;
    for (name, digests) in runs {
        let expected = published[name].as_object();
        let expected = expected.with_context(|| format!("golden: {name} is no golden run"))?;
        let digests = digests.as_object();
        let is_whole = digests.is_some_and(|digests| {
            digests.len() == expected.len()
                && expected
                    .keys()
                    .all(|key| digests.get(key).is_some_and(is_digest))
        });
        ensure!(is_whole, "golden.{name}: has not the digests of that run");
        is_equal &= digests == Some(expected);
    }
    let stated = found["golden_equal"].as_bool();
    ensure!(
        stated == Some(is_equal),
        "golden_equal: is {}, but the digests are {} than those published",
        found["golden_equal"],
        if is_equal { "no others" } else { "others" }
    );
    Ok(())
}

fn device(found: &Value, made: &str, file: &str) -> Result<Device> {
    let facts = &found["device"];
    let of = |key: &str| text_of(&facts[key]).with_context(|| key.to_owned());
    let named = || facts["name"].as_str().unwrap_or("a device").to_owned();
    let kind = of("kind")?;
    ensure!(
        ["cpu", "vulkan_gpu", "vulkan_software"].contains(&&kind[..]),
        "{}: kind: is {kind}, expected cpu, vulkan_gpu or vulkan_software",
        named()
    );
    match found.get("error") {
        None => check_measured(found).with_context(named)?,
        Some(error) => {
            text_of(error).context("error").with_context(named)?;
            let is_measured = ["golden", "golden_equal", "rates"]
                .iter()
                .any(|key| found.get(key).is_some());
            ensure!(
                !is_measured,
                "{}: was refused, and has measurements",
                named()
            );
        }
    }
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
        kind,
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
    use super::{GOLDEN, page, parse};
    use serde_json::{Value, json};

    fn report() -> Value {
        let mut golden: Value = serde_json::from_str(GOLDEN).expect("JSON");
        golden.as_object_mut().expect("an object").remove("version");
        json!({
            "form": 1, "date": "2026-11-27",
            "program": { "version": "0.2.0", "specification": 2, "shaders": "ab".repeat(32) },
            "system": { "os": "linux", "architecture": "x86_64" },
            "devices": [{
                "device": { "name": "Radeon", "kind": "vulkan_gpu", "vendor": "AMD", "driver": "RADV 25" },
                "limits": { "memory_bytes": 17_179_869_184_u64 },
                "probe": [{ "name": "fma", "finding": "equal", "passed": true }],
                "integers": "plain integers", "golden_equal": true, "golden": golden,
                "rates": { "size": 4096, "product_flops_per_second": 1.234e13,
                           "integer_product_flops_per_second": 9.87e9,
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
        report["devices"][0]["golden"]["scalar"]["logits"] = json!("0".repeat(64));
        report["devices"][0]["golden_equal"] = json!(false);
        report["devices"][0]["probe"][0]["passed"] = json!(false);
        let devices = parse(&report.to_string(), "amd.json").expect("a report");
        assert_eq!(devices[0].golden, "OTHER DIGESTS");
        assert_eq!(devices[0].probe, "failed: fma");
    }

    #[test]
    fn a_device_that_was_refused_has_a_row() {
        let mut report = report();
        let refused = json!({
            "device": report["devices"][0]["device"], "error": "the driver lacks (path)",
        });
        report["devices"][0] = refused;
        let devices = parse(&report.to_string(), "amd.json").expect("a report");
        assert_eq!(devices[0].probe, "refused: the driver lacks (path)");
        assert_eq!(devices[0].golden, "-");
    }

    /// A member by its path, and what a hand has written there.
    fn edited(path: &str, value: Option<Value>) -> Value {
        let mut report = report();
        let (parent, name) = path.rsplit_once('/').expect("a path");
        let parent = report.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.expect("an object");
        match value {
            Some(value) => parent.insert(name.to_owned(), value),
            None => parent.remove(name),
        };
        report
    }

    #[test]
    fn what_a_hand_has_changed_is_refused_in_one_line_that_names_it() {
        let zeros = json!("0".repeat(64));
        let edits = [
            ("/form", Some(json!(2)), "the form 2, expected 1"),
            ("/form", None, "the form null"),
            (
                "/date",
                Some(json!("yesterday")),
                "date: yesterday is no day",
            ),
            (
                "/program/version",
                Some(json!("mine")),
                "program.version: mine",
            ),
            ("/program/shaders", Some(json!("12")), "program.shaders"),
            (
                "/program/commit",
                Some(json!("1")),
                "program: has the member \"commit\"",
            ),
            (
                "/host",
                Some(json!("box")),
                "report: has the member \"host\"",
            ),
            ("/devices", Some(json!([])), "has no devices"),
            (
                "/devices/0/owner",
                Some(json!("Ann")),
                "devices: has the member \"owner\"",
            ),
            (
                "/devices/0/device/name",
                Some(json!("a | b")),
                "cannot stand in a table",
            ),
            ("/devices/0/device/name", None, "name: a text is missing"),
            ("/devices/0/device/uuid", Some(json!("1")), "has uuid"),
            ("/devices/0/device/kind", Some(json!("tpu")), "kind: is tpu"),
            (
                "/devices/0/device/driver",
                Some(json!("/home/ann/driver")),
                "/home/",
            ),
            (
                "/devices/0/device/driver",
                Some(json!("in /opt/driver")),
                "\"/opt/driver\"",
            ),
            (
                "/devices/0/device/driver",
                Some(json!("of ann@example.org")),
                "ann@example.org",
            ),
            ("/devices/0/probe", Some(json!([])), "probe: has no checks"),
            ("/devices/0/probe", None, "probe: has no checks"),
            (
                "/devices/0/rates/copy_bytes_per_second",
                Some(json!(-1.0)),
                "rates.copy_bytes_per_second: is -1.0",
            ),
            ("/devices/0/rates/size", None, "rates.size: is null"),
            ("/devices/0/golden", None, "golden: is missing"),
            (
                "/devices/0/golden/lunar",
                Some(json!({})),
                "lunar is no golden run",
            ),
            (
                "/devices/0/golden/scalar/logits",
                None,
                "golden.scalar: has not the digests",
            ),
            (
                "/devices/0/golden/scalar/logits",
                Some(zeros),
                "golden_equal: is true, but the digests are others",
            ),
            (
                "/devices/0/golden_equal",
                Some(json!(false)),
                "golden_equal: is false, but the digests are no others",
            ),
            (
                "/devices/0/error",
                Some(json!("lost")),
                "was refused, and has measurements",
            ),
        ];
        for (path, value, expected) in edits {
            let wrong = edited(path, value).to_string();
            let error = parse(&wrong, "x.json").expect_err(path);
            let line = format!("{error:#}");
            assert!(
                line.contains(expected) && !line.contains('\n'),
                "{path}: {line}"
            );
        }
        let text = report().to_string();
        for cut in [0, 1, text.len() / 2, text.len() - 1] {
            let error = parse(&text[..cut], "x.json").expect_err("refused");
            assert!(!format!("{error:#}").contains('\n'), "{cut}");
        }
    }
}
