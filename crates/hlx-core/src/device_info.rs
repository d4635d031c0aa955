//! What devices there are, and which one a text such as `auto` or `vulkan:1` names.

use std::fmt;

use serde::Serialize;

use crate::error::CoreError;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// HLX's own CPU device.
    Cpu,
    /// A GPU through its Vulkan driver.
    VulkanGpu,
    /// A Vulkan driver that computes on the CPU, such as lavapipe: slower than the CPU device.
    VulkanSoftware,
}

/// A device's description and limits.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// The name that opens it: `cpu`, `vulkan:0`.
    pub selector: String,
    /// The device's own name.
    pub name: String,
    /// The kind.
    pub kind: DeviceKind,
    /// The driver's name and version.
    pub driver: String,
    /// Its memory in bytes (the largest device-local heap; the machine's for the CPU).
    pub memory_bytes: u64,
    /// The most words that one binding covers.
    pub max_binding_words: u64,
    /// The most bytes of shared memory a workgroup has; 0 on the CPU.
    pub shared_memory_bytes: u32,
    /// The most invocations of a workgroup; 0 on the CPU.
    pub max_workgroup_invocations: u32,
    /// The most invocations of a workgroup in x, y and z; 0 on the CPU.
    pub max_workgroup_size: [u32; 3],
    /// The most bytes of push constants; 0 on the CPU.
    pub max_push_constant_bytes: u32,
    /// Processors that workgroups spread over (multiprocessors, compute units; the CPU's threads);
    /// 0 where the driver does not report it.
    pub processors: u32,
    /// The subgroup's size; the vector width in words on the CPU.
    pub subgroup_size: u32,
    /// Driver and device ids that key caches.
    pub cache_key: String,
}

impl DeviceInfo {
    /// The maker's and the model's numbers on the PCI bus, as the driver gives them; `None` for the CPU device.
    #[must_use]
    pub fn pci_ids(&self) -> Option<(u32, u32)> {
        let mut ids = self.cache_key.split('-');
        let mut id = || u32::from_str_radix(ids.next()?, 16).ok();
        match self.kind {
            DeviceKind::Cpu => None,
            _ => Some((id()?, id()?)),
        }
    }

    /// The maker of a Vulkan device by its number, as in `NVIDIA`; `None` for the CPU device and makers without a
    /// name here.
    #[must_use]
    pub fn vendor(&self) -> Option<&'static str> {
        Some(match self.pci_ids()?.0 {
            0x1002 => "AMD",
            0x106b => "Apple",
            0x10de => "NVIDIA",
            0x13b5 => "Arm",
            0x5143 => "Qualcomm",
            0x8086 => "Intel",
            // Khronos gave Mesa a number for its software drivers.
            0x10005 => "Mesa",
            _ => return None,
        })
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.name, self.selector)
    }
}

/// A parsed device text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    Auto,
    Cpu,
    /// The best Vulkan device.
    Vulkan,
    /// The Vulkan device of this index.
    VulkanIndex(usize),
}

impl Selector {
    pub fn parse(text: &str) -> Result<Self, CoreError> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "vulkan" => Ok(Self::Vulkan),
            _ => text
                .strip_prefix("vulkan:")
                .and_then(|index| index.parse().ok())
                .map(Self::VulkanIndex)
                .ok_or_else(|| CoreError::UnknownDevice {
                    found: text.to_owned(),
                }),
        }
    }
}

/// The CPU device's description.
pub(crate) fn cpu_info() -> DeviceInfo {
    let level = crate::cpu::simd_level();
    let threads = crate::cpu::thread_count();
    DeviceInfo {
        selector: "cpu".to_owned(),
        name: crate::cpu::processor_name(),
        kind: DeviceKind::Cpu,
        driver: format!(
            "hlx {} ({}, {threads} threads)",
            env!("CARGO_PKG_VERSION"),
            level.name()
        ),
        memory_bytes: crate::cpu::memory_budget(),
        max_binding_words: u64::from(u32::MAX),
        shared_memory_bytes: 0,
        max_workgroup_invocations: 0,
        max_workgroup_size: [0; 3],
        max_push_constant_bytes: 0,
        processors: threads as u32,
        subgroup_size: match level {
            crate::cpu::SimdLevel::Portable => 1,
            crate::cpu::SimdLevel::Neon => 4,
            crate::cpu::SimdLevel::Avx2 => 8,
            crate::cpu::SimdLevel::Avx512 => 16,
        },
        cache_key: format!("cpu-{}", level.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vulkan_device_names_its_maker() {
        let cpu = cpu_info();
        assert_eq!((cpu.pci_ids(), cpu.vendor()), (None, None));
        let of = |cache_key: &str| DeviceInfo {
            kind: DeviceKind::VulkanGpu,
            cache_key: cache_key.to_owned(),
            ..cpu_info()
        };
        let card = of("000010de-00002330-915fc100-0a0b");
        assert_eq!(card.pci_ids(), Some((0x10de, 0x2330)));
        assert_eq!(card.vendor(), Some("NVIDIA"));
        assert_eq!(of("0000ffff-00000000-00000000-00").vendor(), None);
        assert_eq!(of("none").pci_ids(), None);
    }

    #[test]
    fn selectors_parse() {
        assert_eq!(Selector::parse("auto").ok(), Some(Selector::Auto));
        assert_eq!(
            Selector::parse("vulkan:3").ok(),
            Some(Selector::VulkanIndex(3))
        );
        for bad in ["", "gpu", "vulkan:", "vulkan:x", "CPU", "vulkan:-1"] {
            assert!(
                matches!(Selector::parse(bad), Err(CoreError::UnknownDevice { .. })),
                "{bad}"
            );
        }
    }
}
