//! The devices that tests open, and the record of which test ran on which device.
//!
//! Every test of every crate opens its devices here. `HLX_TEST_DEVICES` selects them: `all` (the
//! default) opens the CPU device and every Vulkan device found, `cpu` the CPU device alone, and
//! `vulkan` opens the same as `all` but fails where no Vulkan device is found.
//!
//! If `HLX_TEST_REPORT` names a file, each test appends a line for each device it ran on, and for
//! each device or tool it did without. `cargo xtask test` prints a summary of these lines.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::arithmetic::Arithmetic;
use crate::device::Device;
use crate::device_info::{DeviceInfo, cpu_info};
use crate::error::CoreError;
use crate::stream::Stream;
use crate::test_report::append;

/// The devices that `HLX_TEST_DEVICES` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selected {
    All,
    Cpu,
    Vulkan,
}

impl Selected {
    fn parse(value: &str) -> Result<Self, String> {
        match value {
            "" | "all" => Ok(Self::All),
            "cpu" => Ok(Self::Cpu),
            "vulkan" => Ok(Self::Vulkan),
            other => Err(format!(
                "HLX_TEST_DEVICES is `{other}`, expected all, cpu or vulkan"
            )),
        }
    }

    fn from_env() -> Self {
        let value = std::env::var("HLX_TEST_DEVICES").unwrap_or_default();
        Self::parse(&value).unwrap_or_else(|message| panic!("{message}"))
    }

    /// Why a test finds no Vulkan device.
    fn reason(self) -> &'static str {
        match self {
            Self::Cpu => "HLX_TEST_DEVICES is cpu",
            Self::All | Self::Vulkan => "no Vulkan device was found",
        }
    }
}

/// Returns the devices under test, which all tests of a process share: the CPU device first.
///
/// # Panics
/// If a device that was found cannot be opened, or if `HLX_TEST_DEVICES` is `vulkan` and there
/// is no Vulkan device.
pub fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let opened = DEVICES.get_or_init(|| open(Selected::from_env()));
    record_all(opened);
    opened
}

/// Opens the devices under test for one test alone: a test that records a graph must not share
/// its devices with the launches of other tests.
///
/// # Panics
/// As [`devices`].
pub fn own_devices() -> Vec<Device> {
    let opened = open(Selected::from_env());
    record_all(&opened);
    opened
}

/// As [`own_devices`], with an arithmetic, those that compute in it.
///
/// # Panics
/// As [`devices`].
pub fn own_devices_in(arithmetic: Arithmetic) -> Vec<Device> {
    let devices = own_devices().into_iter();
    devices
        .filter_map(|device| device.in_arithmetic(arithmetic).ok())
        .collect()
}

/// Opens the Vulkan devices under test for one test alone. Returns none where there is none,
/// which the report then says.
///
/// # Panics
/// As [`devices`].
pub fn vulkan_devices() -> Vec<Device> {
    let mut opened = open(Selected::from_env());
    opened.retain(|device| !device.is_cpu());
    opened.iter().for_each(|device| ran_on(device.info()));
    if opened.is_empty() {
        left_out("Vulkan", Selected::from_env().reason());
    }
    opened
}

/// Opens the CPU device for one test alone.
///
/// # Errors
/// As [`Device::cpu`].
pub fn cpu() -> Result<Device, CoreError> {
    let device = Device::cpu()?;
    ran_on(device.info());
    Ok(device)
}

/// Returns the selectors of the devices under test, for tests that start programs or open a
/// device many times.
///
/// # Panics
/// As [`devices`].
pub fn selectors() -> Vec<String> {
    let opened = devices().iter();
    opened
        .map(|device| device.info().selector.clone())
        .collect()
}

/// Returns how many pipelines of each shader a device has made so far, by the shader's name: one for each set of
/// specialization constants. A launch of HLX's own makes its pipeline, so a shader that is missing was never
/// launched. The CPU device has none.
pub fn launched_shaders(device: &Device) -> BTreeMap<&'static str, usize> {
    let mut launched = BTreeMap::new();
    if let Stream::Vulkan(stream) = device.stream() {
        for name in stream.device().pipelines().shader_names() {
            *launched.entry(name).or_default() += 1;
        }
    }
    launched
}

/// Appends to the report that the calling test ran on a device.
pub fn ran_on(device: &DeviceInfo) {
    append("ran", &device.selector, &device.name);
}

/// Appends to the report that the calling test runs a program on the CPU device.
pub fn ran_on_cpu() {
    ran_on(&cpu_info());
}

/// Appends to the report that the calling test did without `what`, a device or a tool, and why.
pub fn left_out(what: &str, reason: &str) {
    append("left out", what, reason);
}

/// Whether tests run all of their cases: unless `HLX_TEST_CASES` is `chosen`, which `cargo xtask test` sets without
/// `--all`.
pub fn runs_all_cases() -> bool {
    !std::env::var("HLX_TEST_CASES").is_ok_and(|value| value == "chosen")
}

/// The cases that the calling test runs: all, or where cases are chosen each `step`-th, the first among them. The
/// report says where some are left out.
pub fn cases<T>(all: impl IntoIterator<Item = T>, step: usize) -> impl Iterator<Item = T> {
    let step = if runs_all_cases() { 1 } else { step };
    if step > 1 {
        left_out("some of their cases", "`cargo xtask test --all` runs them");
    }
    all.into_iter().step_by(step)
}

/// Returns what spirv-val, the oracle for modules, has against a module; nothing if it accepts it.
///
/// # Errors
/// Where the program does not start or breaks off.
pub fn spirv_val(module: &[u8]) -> std::io::Result<Option<String>> {
    let mut child = Command::new("spirv-val")
        .args(["--target-env", "vulkan1.2", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(module)?;
    }
    let output = child.wait_with_output()?;
    let messages = [output.stdout, output.stderr].concat();
    let messages = String::from_utf8_lossy(&messages).into_owned();
    Ok((!output.status.success()).then_some(messages))
}

fn open(selected: Selected) -> Vec<Device> {
    let opened = match selected {
        Selected::Cpu => Device::cpu().map(|device| vec![device]),
        Selected::All | Selected::Vulkan => Device::all(),
    };
    let opened =
        opened.unwrap_or_else(|error| panic!("cannot open the devices under test: {error}"));
    assert!(
        selected != Selected::Vulkan || opened.len() > 1,
        "HLX_TEST_DEVICES is vulkan, but no Vulkan device was found \
         (`cargo xtask test --device cpu` tests without)"
    );
    opened
}

fn record_all(opened: &[Device]) {
    opened.iter().for_each(|device| ran_on(device.info()));
    if opened.iter().all(Device::is_cpu) {
        left_out("Vulkan", Selected::from_env().reason());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_selects_the_devices() {
        assert_eq!(Selected::parse(""), Ok(Selected::All));
        assert_eq!(Selected::parse("all"), Ok(Selected::All));
        assert_eq!(Selected::parse("cpu"), Ok(Selected::Cpu));
        assert_eq!(Selected::parse("vulkan"), Ok(Selected::Vulkan));
        assert_eq!(
            Selected::parse("cuda"),
            Err("HLX_TEST_DEVICES is `cuda`, expected all, cpu or vulkan".to_owned())
        );
    }

    #[test]
    fn cpu_opens_the_cpu_device_alone() {
        let opened = open(Selected::Cpu);
        ran_on(opened[0].info());
        assert!(opened.len() == 1 && opened[0].is_cpu());
    }
}
