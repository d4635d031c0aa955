//! Tunings of devices.

use super::*;
use crate::device_info::cpu_info;

fn device(kind: DeviceKind, processors: u32, memory_bytes: u64) -> DeviceInfo {
    DeviceInfo {
        kind,
        processors,
        memory_bytes,
        ..cpu_info()
    }
}

#[test]
fn every_kind_of_device_has_a_valid_tuning() {
    for kind in [
        DeviceKind::Cpu,
        DeviceKind::VulkanGpu,
        DeviceKind::VulkanSoftware,
    ] {
        for (native, processors) in [(true, 0), (false, 0), (true, 132), (false, 2)] {
            let tuning = Tuning::of(&device(kind, processors, 8 << 30), native);
            assert_eq!(
                tuning.check().map_err(|e| e.to_string()),
                Ok(()),
                "{kind:?}"
            );
        }
    }
}

#[test]
fn an_h200_has_the_rates_that_were_measured_on_one() {
    let tuning = Tuning::of(&device(DeviceKind::VulkanGpu, 132, 141 << 30), true);
    assert!((tuning.flops_per_second / 58e12 - 1.0).abs() < 0.01);
    assert!((tuning.bytes_per_second / 4060e9 - 1.0).abs() < 0.1);
}
