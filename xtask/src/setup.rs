//! Installs what the Vulkan tests need where apt does it; says what to do everywhere else.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};

/// One thing the tests use, its package on Debian and Ubuntu, and what stays untested without.
struct Need {
    what: &'static str,
    package: &'static str,
    without: &'static str,
    present: fn() -> bool,
}

const NEEDS: [Need; 4] = [
    Need {
        what: "the Vulkan loader",
        package: "libvulkan1",
        without: "no test runs on Vulkan",
        present: has_loader,
    },
    Need {
        what: "a Vulkan driver",
        package: "mesa-vulkan-drivers",
        without: "no test runs on Vulkan",
        present: || has_manifest("icd.d", ""),
    },
    Need {
        what: "the Khronos validation layer",
        package: "vulkan-validationlayers",
        without: "Vulkan tests run unchecked",
        present: || has_manifest("explicit_layer.d", "VkLayer_khronos_validation"),
    },
    Need {
        what: "spirv-val",
        package: "spirv-tools",
        without: "shader modules are not validated",
        present: || command::on_path("spirv-val"),
    },
];

/// Installs what is missing, or prints how; then says what the tests will have to leave out.
pub fn prepare(install: bool) -> Result<(), String> {
    if install {
        if command::on_path("apt-get") && command::on_path("dpkg-query") {
            apt_install()?;
        } else if NEEDS.iter().any(|need| !(need.present)()) {
            eprintln!(
                "xtask: install what is missing with:\n  {}",
                commands_here()
            );
        }
    }
    for need in NEEDS.iter().filter(|need| !(need.present)()) {
        eprintln!(
            "xtask: left out: {} is not here, so {}",
            need.what, need.without
        );
    }
    Ok(())
}

/// Whether programs here can use Vulkan at all.
pub fn has_vulkan() -> bool {
    NEEDS[..2].iter().all(|need| (need.present)())
}

/// Whether the validation layer is here.
pub fn has_validation() -> bool {
    (NEEDS[2].present)()
}

fn apt_install() -> Result<(), String> {
    let missing: Vec<&str> = NEEDS
        .iter()
        .map(|need| need.package)
        .filter(|package| !installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    let Some(prefix) = as_root() else {
        eprintln!("xtask: neither root nor sudo; install by hand: apt-get install {packages}");
        return Ok(());
    };
    let apt = |args: &[&str]| {
        let line = [
            prefix,
            &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"],
            args,
        ]
        .concat();
        let mut command = Command::new(line[0]);
        command::capture("apt-get", command.args(&line[1..])).map(|_| ())
    };
    let install = [&["install", "-y", "--no-install-recommends"], &missing[..]].concat();
    step(&format!("installing {packages}"), || {
        apt(&["update", "-q"])?;
        apt(&install)
    })
    .map_err(|error| format!("{error}\n`cargo xtask test --no-install` goes on without"))
}

fn installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f=${Status}", package]);
    command::capture("dpkg-query", &mut query).is_ok_and(|out| out.contains("ok installed"))
}

/// The words before a command that needs root, or `None` when there is no way to be root.
fn as_root() -> Option<&'static [&'static str]> {
    let id = command::capture("id", Command::new("id").arg("-u")).unwrap_or_default();
    if id.trim() == "0" {
        return Some(&[]);
    }
    command::on_path("sudo").then_some(&["sudo"])
}

/// The commands of the system we are on, as a user would type them.
fn commands_here() -> &'static str {
    if cfg!(target_os = "macos") {
        return "brew install vulkan-loader molten-vk vulkan-validationlayers spirv-tools";
    }
    if cfg!(windows) {
        return "winget install KhronosGroup.VulkanSDK";
    }
    const MANAGERS: [(&str, &str); 4] = [
        (
            "dnf",
            "sudo dnf install vulkan-loader mesa-vulkan-drivers vulkan-validation-layers \
             spirv-tools",
        ),
        (
            "pacman",
            "sudo pacman -S vulkan-icd-loader vulkan-swrast vulkan-validation-layers spirv-tools",
        ),
        (
            "zypper",
            "sudo zypper install libvulkan1 libvulkan_lvp vulkan-validationlayers spirv-tools",
        ),
        (
            "apk",
            "sudo apk add vulkan-loader mesa-vulkan-swrast vulkan-validation-layers spirv-tools",
        ),
    ];
    let found = MANAGERS
        .iter()
        .find(|(manager, _)| command::on_path(manager));
    found.map_or(
        "(your system's Vulkan loader, driver, validation layer and spirv-tools)",
        |m| m.1,
    )
}

fn has_loader() -> bool {
    if cfg!(windows) {
        return Path::new(r"C:\Windows\System32\vulkan-1.dll").is_file();
    }
    if cfg!(target_os = "macos") {
        let lib = |dir: &str| Path::new(dir).join("libvulkan.dylib").is_file();
        return lib("/opt/homebrew/lib") || lib("/usr/local/lib");
    }
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    if std::env::split_paths(&search).any(|dir| dir.join("libvulkan.so.1").is_file()) {
        return true;
    }
    let known = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"]
        .iter()
        .find_map(|program| command::capture(program, Command::new(program).arg("-p")).ok());
    known.is_some_and(|list| list.contains("libvulkan.so.1"))
}

/// Whether the loader would find a manifest of that kind whose name starts with `prefix`.
fn has_manifest(kind: &str, prefix: &str) -> bool {
    if cfg!(windows) {
        return true; // Windows keeps them in the registry; the tests themselves find out.
    }
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
    if kind == "icd.d" && named.iter().any(|name| std::env::var_os(name).is_some()) {
        return true;
    }
    const BASES: [&str; 6] = [
        "/usr/share/vulkan",
        "/usr/local/share/vulkan",
        "/etc/vulkan",
        "/opt/homebrew/share/vulkan",
        "/opt/homebrew/etc/vulkan",
        "/usr/local/etc/vulkan",
    ];
    let mut dirs: Vec<PathBuf> = BASES
        .iter()
        .map(|base| Path::new(base).join(kind))
        .collect();
    dirs.extend(std::env::var_os("VK_LAYER_PATH").map(PathBuf::from));
    let entries = dirs
        .iter()
        .filter_map(|dir| dir.read_dir().ok())
        .flatten()
        .flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .any(|name| name.starts_with(prefix) && name.ends_with(".json"))
}
