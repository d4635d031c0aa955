//! What a container lacks for a Vulkan GPU: each lack in one line, with what to do.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::device_info::DeviceKind;
use crate::vulkan;

/// Where the Vulkan loader looks for the manifests of drivers.
const MANIFESTS: [&str; 5] = [
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/usr/local/etc/vulkan/icd.d",
    "/run/vulkan/icd.d",
];

/// Where NVIDIA's runtime puts the driver's libraries.
const LIBRARIES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// What a container shows of GPUs.
#[derive(Clone, Debug, Default)]
struct Shown {
    has_loader: bool,
    /// Whether NVIDIA's driver has its devices here, its library with Vulkan, and that library's manifest.
    has_nvidia_device: bool,
    has_nvidia_library: bool,
    has_nvidia_manifest: bool,
    /// Devices to render with.
    nodes: Vec<Node>,
    has_gpu: bool,
    has_software: bool,
}

/// A device in /dev/dri.
#[derive(Clone, Debug)]
struct Node {
    path: String,
    group: u32,
    may_open: bool,
}

/// The lacks of the container that this process runs in, one line each; none outside of a container, and none
/// where everything that it shows can be used.
#[must_use]
pub fn container_lacks() -> Vec<String> {
    match is_container() {
        true => Shown::here().lacks(),
        false => Vec::new(),
    }
}

/// Whether this process runs in a container, by the marks that Docker, Podman and others leave.
#[must_use]
pub fn is_container() -> bool {
    let marks = ["/.dockerenv", "/run/.containerenv"];
    // systemd's convention, which images follow.
    let named = std::env::var_os("container").is_some_and(|name| !name.is_empty());
    named || marks.iter().any(|mark| Path::new(mark).exists())
}

impl Shown {
    fn here() -> Self {
        let kinds: Vec<DeviceKind> = vulkan::list()
            .map(|devices| devices.iter().map(|info| info.kind).collect())
            .unwrap_or_default();
        Self {
            has_loader: vulkan::has_loader(),
            has_nvidia_device: Path::new("/dev/nvidiactl").exists(),
            has_nvidia_library: ["libGLX_nvidia.so.0", "libEGL_nvidia.so.0"]
                .iter()
                .any(|name| {
                    LIBRARIES
                        .iter()
                        .any(|dir| Path::new(dir).join(name).exists())
                }),
            has_nvidia_manifest: MANIFESTS.iter().any(|dir| has_nvidia_manifest(dir)),
            nodes: nodes(),
            has_gpu: kinds.contains(&DeviceKind::VulkanGpu),
            has_software: kinds.contains(&DeviceKind::VulkanSoftware),
        }
    }

    fn lacks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.has_loader {
            lines.push(
                "no Vulkan loader: install libvulkan1 in the image (docker/packages.txt)"
                    .to_owned(),
            );
        }
        lines.extend(self.nvidia());
        lines.extend(self.nodes.iter().filter(|node| !node.may_open).map(|node| {
            format!(
                "{} may not be opened: start the container with `--group-add {}`, the device's group (`render` or \
                 `video` of the host)",
                node.path, node.group
            )
        }));
        if self.nodes.is_empty() && !self.has_nvidia_device && !self.has_gpu {
            lines.push(
                "no /dev/dri and no NVIDIA device: start the container with `--device /dev/dri` (AMD, Intel) or \
                 `--gpus all` (NVIDIA)"
                    .to_owned(),
            );
        }
        if self.has_software && !self.has_gpu {
            lines.push(
                "Vulkan finds lavapipe alone, a driver in software: the results are the same, the speed is not; \
                 `--device cpu` is faster"
                    .to_owned(),
            );
        }
        lines
    }

    fn nvidia(&self) -> Option<String> {
        if !self.has_nvidia_device {
            return None;
        }
        match (self.has_nvidia_library, self.has_nvidia_manifest) {
            (true, true) => None,
            (false, _) => Some(
                "NVIDIA's GPU is here without the capability `graphics`, which brings Vulkan: start the container \
                 with `-e NVIDIA_DRIVER_CAPABILITIES=graphics,compute,utility`"
                    .to_owned(),
            ),
            (true, false) => Some(
                "NVIDIA's Vulkan library is here without its manifest: mount the host's nvidia_icd.json with \
                 `-v /usr/share/vulkan/icd.d/nvidia_icd.json:/etc/vulkan/icd.d/nvidia_icd.json:ro`"
                    .to_owned(),
            ),
        }
    }
}

fn entries(folder: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn has_nvidia_manifest(folder: &str) -> bool {
    entries(folder).any(|path| {
        let name = name_of(&path);
        name.starts_with("nvidia") && name.ends_with(".json")
    })
}

/// The devices to render with, in the order of their names.
fn nodes() -> Vec<Node> {
    let mut paths: Vec<PathBuf> = entries("/dev/dri")
        .filter(|path| name_of(path).starts_with("renderD"))
        .collect();
    paths.sort();
    let node = |path: PathBuf| Node {
        group: group(&path),
        may_open: !File::open(&path)
            .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied),
        path: path.display().to_string(),
    };
    paths.into_iter().map(node).collect()
}

/// The number of the group that owns a device.
fn group(path: &Path) -> u32 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).map_or(0, |metadata| metadata.gid())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        0
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, Shown, container_lacks, is_container};

    fn nvidia() -> Shown {
        Shown {
            has_loader: true,
            has_nvidia_device: true,
            has_nvidia_library: true,
            has_nvidia_manifest: true,
            ..Shown::default()
        }
    }

    fn with_node(may_open: bool) -> Shown {
        let node = Node {
            path: "/dev/dri/renderD128".to_owned(),
            group: 992,
            may_open,
        };
        Shown {
            has_loader: true,
            nodes: vec![node],
            ..Shown::default()
        }
    }

    #[test]
    fn each_lack_is_one_line_that_says_what_to_do() {
        let cases: [(Shown, &[&str]); 8] = [
            (Shown::default(), &["libvulkan1", "--device /dev/dri"]),
            (
                Shown {
                    has_nvidia_library: false,
                    has_nvidia_manifest: false,
                    ..nvidia()
                },
                &["NVIDIA_DRIVER_CAPABILITIES=graphics,compute,utility"],
            ),
            (
                Shown {
                    has_nvidia_manifest: false,
                    ..nvidia()
                },
                &["nvidia_icd.json"],
            ),
            (
                Shown {
                    has_gpu: true,
                    ..nvidia()
                },
                &[],
            ),
            (with_node(false), &["--group-add 992"]),
            (
                Shown {
                    has_gpu: true,
                    has_software: true,
                    ..with_node(true)
                },
                &[],
            ),
            (
                Shown {
                    has_software: true,
                    ..with_node(false)
                },
                &["--group-add 992", "lavapipe"],
            ),
            (
                Shown {
                    has_loader: true,
                    has_software: true,
                    ..Shown::default()
                },
                &["--device /dev/dri", "lavapipe"],
            ),
        ];
        for (shown, named) in cases {
            let lines = shown.lacks();
            assert_eq!(lines.len(), named.len(), "{lines:?}");
            for (line, named) in lines.iter().zip(named) {
                assert!(line.contains(named) && !line.contains('\n'), "{line}");
            }
        }
    }

    #[test]
    fn nothing_is_lacking_outside_of_a_container() {
        if !is_container() {
            assert!(container_lacks().is_empty());
        }
    }
}
