//! The device's peaks, measured when it is opened for the first time: arithmetic and memory.
//!
//! They serve estimates of how long work takes, so that no submission exceeds the driver's
//! time-out ([`Tuning::submission_ms`](crate::Tuning::submission_ms)). Being right to a factor of
//! two is enough, and a device that has not reached its clock yet looks rather too slow.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::shader::Shader;

/// What a device reaches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peak {
    /// Floating-point operations per second, a multiply-add counted as two.
    pub flops_per_second: f64,
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
}

static MULTIPLY_ADD_SPV: &[u8] = include_bytes!("../spv/peak/multiply_add.spv");
#[doc(hidden)] // For hlx-proof, which measures with it more closely.
// SAFETY: a module of `cargo xtask shaders`; its accesses are bounded by the count pushed to it.
pub static MULTIPLY_ADD: Shader = unsafe { Shader::new("peak/multiply_add", MULTIPLY_ADD_SPV) };

/// A measurement ends when it has taken this long: many times what a submission costs.
const LONG_ENOUGH_S: f64 = 4e-3;
/// Words of the buffers: 16 MiB, more than most caches hold.
const WORDS: usize = 1 << 22;

/// Measures the peaks in about 20 ms on a large GPU and 100 ms on a small one.
pub(crate) fn measure(device: &Device) -> Result<Peak, CoreError> {
    let (x, y) = (device.alloc(WORDS)?, device.alloc(WORDS)?);
    device.fill(&x, 1.0_f32.to_bits())?;
    // Eight chains of multiply-adds per element; few elements first, as the device may be slow.
    let flops_per_second = rate(device, |repeats| {
        let (count, steps) = elements_and_steps(repeats);
        let push = [
            count as u32,
            steps as u32,
            0.5_f32.to_bits(),
            0.5_f32.to_bits(),
        ];
        let (x, y) = (x.slice(0, count)?, y.slice(0, count)?);
        let launch = Launch {
            name: "peak",
            shader: &MULTIPLY_ADD,
            specialization: &[],
            bindings: &[Binding::Read(&x), Binding::Write(&y)],
            push: bytemuck::cast_slice(&push),
            groups: groups_1d(count.div_ceil(256)),
        };
        device.launch(launch, |_| {})?;
        Ok(2.0 * 8.0 * steps as f64 * count as f64)
    })?;
    let bytes_per_second = rate(device, |repeats| {
        for _ in 0..repeats {
            device.copy(&x, &y)?;
        }
        Ok(repeats as f64 * 8.0 * WORDS as f64)
    })?;
    Ok(Peak {
        flops_per_second,
        bytes_per_second,
    })
}

/// First more elements, until they fill a large device, then more steps of each.
fn elements_and_steps(repeats: usize) -> (usize, usize) {
    const FEWEST: usize = 1 << 13;
    const MOST: usize = 1 << 20;
    let elements = (FEWEST * repeats).min(MOST);
    (elements, 16 * (FEWEST * repeats / elements))
}

/// Runs `work` with 1, 4, 16, ... repeats until it takes long enough; returns its amount a second.
fn rate(device: &Device, work: impl Fn(usize) -> Result<f64, CoreError>) -> Result<f64, CoreError> {
    // The first run makes the pipeline.
    work(1)?;
    device.sync()?;
    let mut repeats = 1;
    loop {
        let start = Instant::now();
        let amount = work(repeats)?;
        device.sync()?;
        let seconds = start.elapsed().as_secs_f64();
        if seconds >= LONG_ENOUGH_S {
            return Ok(amount / seconds);
        }
        repeats *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_add_elements_and_then_steps() {
        let amount = |repeats| {
            let (elements, steps) = elements_and_steps(repeats);
            elements * steps
        };
        assert_eq!(elements_and_steps(1), (1 << 13, 16));
        assert_eq!(elements_and_steps(64), (1 << 19, 16));
        assert_eq!(elements_and_steps(1024), (1 << 20, 128));
        for repeats in [1, 4, 16, 64, 256, 1024] {
            assert_eq!(amount(repeats), repeats * amount(1));
        }
    }

    #[test]
    fn a_device_has_peaks() {
        for device in &crate::testing::vulkan_devices() {
            let peak = measure(device).expect("measured");
            let rates = [peak.flops_per_second, peak.bytes_per_second];
            assert!(
                rates.iter().all(|rate| (1e6..1e18).contains(rate)),
                "{peak:?}"
            );
        }
    }
}
