//! The result of a probe, cached on disk by device, driver and shader.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::dots::DOTS;
use super::halves::{BF16_MATRICES, F16_MATRICES};
use super::matrices::{MATRICES, NARROW_MATRICES};
use super::reduction::ROW_SUM;
use super::{ARITHMETIC, IntegerPaths, Probed};
use crate::arithmetic::HalfMatrices;
use crate::device_info::DeviceKind;
use crate::digest::sha256_hex;
use crate::files;
use crate::peak::Peak;
use crate::probe_report::ProbeReport;
use crate::vulkan::{Modes, VulkanDevice};

/// A probe's result as it is stored on disk.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    pub native_fma: u32,
    pub native_flush: u32,
    pub report: ProbeReport,
    /// Only for hardware: software drivers have no time-out.
    pub peak: Option<Peak>,
    pub integers: IntegerPaths,
    pub halves: HalfMatrices,
}

/// Where a device's result is cached: named by device, driver, and the probe's own shaders.
fn path_of(vulkan: &VulkanDevice) -> Option<PathBuf> {
    let mut modules = ARITHMETIC.bytes().to_vec();
    modules.extend_from_slice(ROW_SUM.bytes());
    modules.extend_from_slice(DOTS.bytes());
    modules.extend_from_slice(MATRICES.bytes());
    for shader in [&NARROW_MATRICES, &BF16_MATRICES, &F16_MATRICES] {
        modules.extend_from_slice(shader.bytes());
    }
    modules.extend_from_slice(vulkan.info.driver.as_bytes());
    let digest = sha256_hex(&modules);
    Some(files::cache_dir()?.join(format!(
        "probe-{}-{}.json",
        vulkan.info.cache_key,
        &digest[..16]
    )))
}

/// Reads what an earlier probe found; nothing of a device that failed.
pub(super) fn read(vulkan: &VulkanDevice) -> Option<Stored> {
    let bytes = files::read_settings(&path_of(vulkan)?).ok()?;
    let stored: Stored = serde_json::from_slice(&bytes).ok()?;
    let hardware = vulkan.info.kind == DeviceKind::VulkanGpu;
    let whole = !stored.report.checks.is_empty() && stored.peak.is_some() == hardware;
    (stored.report.passed() && whole).then_some(stored)
}

/// Writes what the probe found; if that fails, the next start probes again, so it is only logged.
pub(super) fn write(vulkan: &VulkanDevice, modes: Modes, probed: &Probed) {
    let Some(path) = path_of(vulkan) else {
        return;
    };
    let stored = Stored {
        native_fma: modes.native_fma,
        native_flush: modes.native_flush,
        report: probed.report.clone(),
        peak: probed.peak,
        integers: probed.integers,
        halves: probed.halves,
    };
    let written = serde_json::to_vec_pretty(&stored)
        .map_err(std::io::Error::other)
        .and_then(|bytes| files::write_with_folder(&path, &bytes));
    if let Err(error) = written {
        tracing::warn!("probe cache {}: {error}", path.display());
    }
}
