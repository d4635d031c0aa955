//! Why a machine has no Vulkan GPU: what is missing, and how to get it, in one line.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use crate::device_info::DeviceKind;
use crate::files;
use crate::vulkan;

/// A maker of GPUs, as the PCI bus numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Nvidia,
    Amd,
    Intel,
}

impl Maker {
    /// The code of a PCI vendor, as the system writes it.
    fn of(vendor: &str) -> Option<Self> {
        match vendor.trim() {
            "0x10de" => Some(Self::Nvidia),
            "0x1002" => Some(Self::Amd),
            "0x8086" => Some(Self::Intel),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Intel => "Intel",
        }
    }
}

/// What the system shows of its GPUs.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Whether the Vulkan loader could be loaded.
    has_loader: bool,
    /// The makers of the display controllers on the PCI bus.
    makers: Vec<Maker>,
    /// Whether NVIDIA's driver has made its devices.
    has_nvidia_device: bool,
    /// Whether there is a device to render with, and whether this user may open one.
    has_render_node: bool,
    may_render: bool,
    is_container: bool,
}

impl Seen {
    /// Looks at this machine.
    fn of_machine() -> Self {
        let nodes: Vec<_> = entries("/dev/dri")
            .filter(|path| name_of(path).starts_with("renderD"))
            .collect();
        let denied = |path: &Path| {
            File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        };
        Self {
            has_loader: vulkan::has_loader(),
            makers: makers(),
            has_nvidia_device: Path::new("/dev/nvidiactl").exists(),
            has_render_node: !nodes.is_empty(),
            may_render: nodes.iter().any(|node| !denied(node)),
            is_container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|path| Path::new(path).exists()),
        }
    }

    /// What is missing, and what to do.
    fn missing(&self) -> String {
        if !self.has_loader {
            return "Vulkan's loader is not installed (libvulkan1 of Debian and Ubuntu, vulkan-loader of \
                    Fedora, vulkan-icd-loader of Arch)"
                .to_owned();
        }
        if self.has_nvidia_device {
            return match self.is_container {
                true => {
                    "the container has an NVIDIA GPU without Vulkan: start it with `--gpus all -e \
                         NVIDIA_DRIVER_CAPABILITIES=all` (`graphics` is the one that brings Vulkan)"
                        .to_owned()
                }
                false => {
                    "NVIDIA's driver is installed without its Vulkan part (libnvidia-gl of Ubuntu, \
                          nvidia-vulkan-icd of Debian)"
                        .to_owned()
                }
            };
        }
        if self.has_render_node && !self.may_render {
            return "this user may not open /dev/dri/renderD*: add it to the group `render` (sudo usermod \
                    -aG render $USER), and log in again"
                .to_owned();
        }
        let of = |maker: &Maker| self.makers.contains(maker);
        match [Maker::Nvidia, Maker::Amd, Maker::Intel].iter().find(|maker| of(maker)) {
            Some(maker) if self.is_container && !self.has_render_node => format!(
                "the machine has a GPU of {}, and this container has none: start it with {}",
                maker.name(),
                match maker {
                    Maker::Nvidia => "`--gpus all -e NVIDIA_DRIVER_CAPABILITIES=all`",
                    _ => "`--device /dev/dri`",
                }
            ),
            Some(Maker::Nvidia) => {
                "the NVIDIA GPU has no driver with Vulkan: install NVIDIA's, or Mesa's NVK".to_owned()
            }
            Some(maker) => format!(
                "the GPU of {} has no Vulkan driver (mesa-vulkan-drivers of Debian, Ubuntu and Fedora)",
                maker.name()
            ),
            None if self.has_render_node => {
                "the GPU has no Vulkan driver (mesa-vulkan-drivers of Debian, Ubuntu and Fedora)".to_owned()
            }
            None if self.is_container => {
                "the container shows no GPU: start it with `--gpus all -e NVIDIA_DRIVER_CAPABILITIES=all`, or with \
                 `--device /dev/dri`"
                    .to_owned()
            }
            None => "this machine shows no GPU".to_owned(),
        }
    }
}

/// Says in one line why `auto` finds no GPU on this machine, and what to do; `None` where there is a Vulkan GPU.
///
/// It looks at the Vulkan loader, the PCI bus, and the devices in `/dev` (Linux); elsewhere at the loader alone.
pub fn why_no_gpu() -> Option<String> {
    let listed = vulkan::list();
    let is_gpu = |kind: DeviceKind| kind == DeviceKind::VulkanGpu;
    if listed.is_ok_and(|devices| devices.iter().any(|info| is_gpu(info.kind))) {
        return None;
    }
    Some(match cfg!(target_os = "linux") {
        true => Seen::of_machine().missing(),
        false if cfg!(target_os = "macos") => {
            "no Vulkan driver is installed (MoltenVK, of Homebrew's molten-vk)".to_owned()
        }
        false => "no Vulkan driver is installed: it comes with the GPU's driver".to_owned(),
    })
}

/// The makers of the display controllers that the PCI bus has.
fn makers() -> Vec<Maker> {
    const DISPLAY: &str = "0x03";
    let text =
        |path: &Path, name: &str| files::read_settings_text(&path.join(name)).unwrap_or_default();
    entries("/sys/bus/pci/devices")
        .filter(|device| text(device, "class").starts_with(DISPLAY))
        .filter_map(|device| Maker::of(&text(&device, "vendor")))
        .collect()
}

fn entries(folder: &str) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amd() -> Seen {
        Seen {
            has_loader: true,
            makers: vec![Maker::Amd],
            has_render_node: true,
            may_render: true,
            ..Seen::default()
        }
    }

    #[test]
    fn what_is_missing_for_a_gpu_is_named() {
        let nvidia = Seen {
            has_loader: true,
            makers: vec![Maker::Nvidia],
            has_nvidia_device: true,
            is_container: true,
            ..Seen::default()
        };
        for (seen, named) in [
            (Seen::default(), "libvulkan1"),
            (nvidia.clone(), "NVIDIA_DRIVER_CAPABILITIES"),
            (
                Seen {
                    is_container: false,
                    ..nvidia.clone()
                },
                "nvidia-vulkan-icd",
            ),
            (
                Seen {
                    has_nvidia_device: false,
                    ..nvidia
                },
                "--gpus all",
            ),
            (amd(), "mesa-vulkan-drivers"),
            (
                Seen {
                    may_render: false,
                    ..amd()
                },
                "the group `render`",
            ),
            (
                Seen {
                    has_render_node: false,
                    is_container: true,
                    ..amd()
                },
                "--device /dev/dri",
            ),
            (
                Seen {
                    makers: Vec::new(),
                    has_render_node: false,
                    ..amd()
                },
                "shows no GPU",
            ),
        ] {
            let line = seen.missing();
            assert!(line.contains(named) && !line.contains('\n'), "{line}");
        }
        assert_eq!(Maker::of("0x8086\n"), Some(Maker::Intel));
    }

    #[test]
    fn a_machine_without_a_gpu_is_told_why() {
        let devices = vulkan::list().unwrap_or_default();
        let has_gpu = devices
            .iter()
            .any(|info| info.kind == DeviceKind::VulkanGpu);
        assert_eq!(why_no_gpu().is_none(), has_gpu);
    }
}
