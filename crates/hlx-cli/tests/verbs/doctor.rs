//! `hlx doctor`: the report that it writes of a device, and the quick form that containers call.

use std::fs;

use crate::common::{Scratch, text};

fn report(place: &Scratch, name: &str) -> serde_json::Value {
    let written = fs::read_to_string(place.join(name)).expect("read");
    serde_json::from_str(&written).expect("JSON")
}

#[test]
fn a_report_has_the_golden_digests_and_rates() {
    let place = Scratch::new("doctor-report");
    let printed = place.succeeds(&["doctor", "--report", "report.json"]);
    assert!(
        printed.contains("equal to the published digests"),
        "{printed}"
    );
    let report = report(&place, "report.json");
    assert_eq!(report["form"], 1);
    assert_eq!(report["program"]["version"], env!("CARGO_PKG_VERSION"));
    let device = &report["devices"][0];
    assert_eq!(device["device"]["kind"], "cpu");
    assert_eq!(device["golden_equal"], true);
    let published = include_str!("../../../hlx-train/golden.json");
    let published: serde_json::Value = serde_json::from_str(published).expect("JSON");
    for run in ["transformer", "integer", "perceptron", "scalar"] {
        assert_eq!(device["golden"][run], published[run], "{run}");
    }
    let rates = device["rates"].as_object().expect("rates");
    assert_eq!(rates.len(), 5);
    assert!(
        rates.values().all(|rate| rate.as_f64() > Some(0.0)),
        "{rates:?}"
    );
    let checks = device["probe"].as_array().expect("checks");
    assert!(checks.iter().all(|check| check["passed"] == true) && !checks.is_empty());
}

#[test]
fn a_report_names_no_person_no_machine_and_no_path() {
    let place = Scratch::new("doctor-names");
    let mut command = place.hlx(&["doctor", "--report", "report.json"]);
    command
        .env("USER", "ann-of-the-mill")
        .env("HOSTNAME", "ann-of-the-mill");
    assert!(command.output().expect("starts").status.success());
    let written = fs::read_to_string(place.join("report.json")).expect("read");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_default();
    let folder = place.join("");
    for name in [
        "ann-of-the-mill",
        &host,
        &machine,
        &home,
        &folder.to_string_lossy(),
    ] {
        let name = name.trim();
        assert!(
            name.len() < 4 || !written.contains(name),
            "{name}: {written}"
        );
    }
    // What may identify a device is in no key, whatever its value.
    for key in ["uuid", "serial", "cache_key", "host", "user", "path"] {
        assert!(!written.contains(key), "{key}: {written}");
    }
    assert!(
        !written.contains('\\') && !written.contains(": \"/"),
        "{written}"
    );
}

#[test]
fn a_device_that_is_not_there_is_one_line() {
    let place = Scratch::new("doctor-absent");
    let mut command = place.hlx(&["doctor", "--report", "report.json", "--device", "vulkan:99"]);
    let output = command.env_remove("HLX_DEVICE").output().expect("starts");
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.lines().count() == 1,
        "{said}"
    );
    assert!(said.contains("vulkan:99"), "{said}");
    assert!(!place.join("report.json").exists());
}

#[test]
fn the_quick_form_opens_one_device() {
    let place = Scratch::new("doctor-quick");
    let printed = place.succeeds(&["doctor", "--quick"]);
    assert!(printed.contains("[cpu]"), "{printed}");
    let mut command = place.hlx(&["doctor", "--quick"]);
    let absent = command
        .env("HLX_DEVICE", "vulkan:99")
        .output()
        .expect("starts");
    assert_eq!(absent.status.code(), Some(1), "{}", text(&absent.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn the_quick_form_names_what_a_container_lacks() {
    let place = Scratch::new("doctor-container");
    let mut command = place.hlx(&["doctor", "--quick"]);
    let output = command.env("container", "oci").output().expect("starts");
    let printed = text(&output.stdout);
    let shows_gpu = std::path::Path::new("/dev/dri").exists()
        || std::path::Path::new("/dev/nvidiactl").exists();
    assert!(output.status.success(), "{printed}");
    if !shows_gpu {
        assert!(printed.contains("container   no /dev/dri"), "{printed}");
    }
}
