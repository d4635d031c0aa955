//! Tuning: how fast a device is about, and how its work is recorded and submitted. It changes speed, never a bit.

use crate::device_info::{DeviceInfo, DeviceKind};
use crate::environment;
use crate::error::CoreError;

/// How fast a device is about, and how its work is recorded and submitted.
///
/// [`Tuning::of`] makes the value when a device is opened; [`crate::Device::with_tuning`] replaces
/// it, for tests and experiments. How kernels are cut is the tuning of the crate that has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// Processors that workgroups spread over: multiprocessors, compute units, cores.
    pub processors: usize,
    /// Estimated peak of f32 arithmetic, FLOP/s: for estimates of a launch's time, accurate to a
    /// factor of a few.
    pub flops_per_second: f64,
    /// Estimated bandwidth of the device's memory, bytes/s, as accurate.
    pub bytes_per_second: f64,
    /// How long a submission may take by estimate, in milliseconds. Windows and most Linux drivers
    /// reset a device whose work takes two seconds; `HLX_SUBMISSION_MS` replaces the 200.
    pub submission_ms: f64,
    /// Whether chains of element-wise launches are joined when a graph is recorded.
    pub chains: bool,
    /// Whether a recorded graph leaves out launches whose results nobody reads. Measurements of launches that
    /// drop their results turn it off.
    pub skips_unread: bool,
}

/// Peak of a multiply-add loop on a multiprocessor of an H200 (58 TFLOP/s on 132), FLOP/s.
const GPU_FLOPS: f64 = 440e9;
/// Peak of one core: a third of what products reach on a core of an AMD EPYC with AVX-512 (150
/// GFLOP/s), as AVX2 has half the lanes, and not every core all of its clock.
const CORE_FLOPS: f64 = 50e9;
/// Operations in the time of a byte from memory: 15 on an H200 (HBM), 25 to 80 by the data sheets
/// of cards with GDDR6, so that an estimate is rather too long.
const FLOPS_A_BYTE: f64 = 80.0;
const FLOPS_A_BYTE_HBM: f64 = 15.0;
/// Cards with this much memory have HBM.
const HBM_BYTES: u64 = 60 << 30;
/// Processors of a GPU whose driver does not report them.
const UNKNOWN_PROCESSORS: usize = 16;
/// Instructions of an emulated multiply-add.
const EMULATED_COST: f64 = 80.0;

impl Tuning {
    /// Returns the tuning of a device. `native` says whether it fuses and flushes by itself;
    /// otherwise its kernels emulate HLX's arithmetic and are bound by it.
    pub fn of(info: &DeviceInfo, native: bool) -> Self {
        let gpu = info.kind == DeviceKind::VulkanGpu;
        let processors = match (info.processors, gpu) {
            (0, true) => UNKNOWN_PROCESSORS,
            (count, _) => (count as usize).max(1),
        };
        let flops = processors as f64 * if gpu { GPU_FLOPS } else { CORE_FLOPS };
        let flops_a_byte = match gpu && info.memory_bytes >= HBM_BYTES {
            true => FLOPS_A_BYTE_HBM,
            false => FLOPS_A_BYTE,
        };
        Self {
            processors,
            flops_per_second: if native { flops } else { flops / EMULATED_COST },
            bytes_per_second: flops / flops_a_byte,
            submission_ms: submission_ms(info.kind),
            chains: true,
            skips_unread: true,
        }
    }

    /// Checks that times can be estimated so.
    ///
    /// # Errors
    /// [`CoreError::Invalid`], which names the field.
    pub fn check(&self) -> Result<(), CoreError> {
        let check = |holds: bool, reason: &str| match holds {
            true => Ok(()),
            false => Err(CoreError::invalid("tuning", reason.to_owned())),
        };
        let positive = |x: f64| x.is_finite() && x > 0.0;
        check(self.processors > 0, "processors is 0, expected some")?;
        let rates = [
            self.flops_per_second,
            self.bytes_per_second,
            self.submission_ms,
        ];
        check(
            rates.into_iter().all(positive),
            "flops_per_second, bytes_per_second and submission_ms must be positive",
        )
    }
}

/// The limit of a submission: `HLX_SUBMISSION_MS`, else a tenth of the usual time-out; software
/// drivers have none.
fn submission_ms(kind: DeviceKind) -> f64 {
    const NO_LIMIT: f64 = 1e12;
    let given = environment::number::<f64>("HLX_SUBMISSION_MS");
    given.unwrap_or(match kind {
        DeviceKind::VulkanGpu => 200.0,
        DeviceKind::VulkanSoftware | DeviceKind::Cpu => NO_LIMIT,
    })
}

#[cfg(test)]
mod tests;
