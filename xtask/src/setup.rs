//! Installs what tests and ports need through apt, with consent; prints the commands elsewhere.

use std::io::{BufRead, IsTerminal, stdin};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};

/// One thing a verb uses, its package on Debian and Ubuntu, and what stays untested without.
#[derive(Clone, Copy)]
pub struct Need {
    what: &'static str,
    package: &'static str,
    without: &'static str,
    present: fn() -> bool,
}

/// A package of Debian; Ubuntu has no such package.
const CHROMIUM: &str = "chromium";

/// What `cargo xtask test` uses.
pub const TESTS: [Need; 8] = [
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
    Need {
        what: "Open MPI",
        package: "openmpi-bin",
        without: "no ranks run under Open MPI",
        present: || command::on_path("mpirun.openmpi"),
    },
    Need {
        what: "MPICH",
        package: "mpich",
        without: "no ranks run under MPICH",
        present: || command::on_path("mpirun.mpich"),
    },
    Need {
        what: "ip, which makes networks",
        package: "iproute2",
        without: "no ranks run on several hosts",
        present: || command::on_path("ip"),
    },
    Need {
        what: "Chromium",
        package: CHROMIUM,
        without: "the page of `hlx serve` is tried in no browser",
        present: has_browser,
    },
];

/// What `cargo xtask ports` uses.
pub const PORTS: [Need; 8] = [
    Need {
        what: "the Vulkan loader",
        package: "libvulkan1",
        without: "nothing is compiled for AMD's chips",
        present: has_loader,
    },
    Need {
        what: "Mesa's driver for AMD's chips",
        package: "mesa-vulkan-drivers",
        without: "nothing is compiled for AMD's chips",
        present: || has_manifest("icd.d", "radeon_icd"),
    },
    Need {
        what: "a linker for AArch64",
        package: "gcc-aarch64-linux-gnu",
        without: "nothing runs on AArch64",
        present: || command::on_path("aarch64-linux-gnu-gcc"),
    },
    Need {
        what: "AArch64's C library to link with",
        package: "libc6-dev-arm64-cross",
        without: "nothing runs on AArch64",
        present: || Path::new("/usr/aarch64-linux-gnu/lib/crti.o").exists(),
    },
    Need {
        what: "an emulator of AArch64",
        package: "qemu-user",
        without: "nothing runs on AArch64",
        present: || command::on_path("qemu-aarch64"),
    },
    Need {
        what: "a linker for Windows",
        package: "gcc-mingw-w64-x86-64",
        without: "nothing runs on Windows",
        present: || command::on_path("x86_64-w64-mingw32-gcc"),
    },
    Need {
        what: "Wine",
        package: "wine64",
        without: "nothing runs on Windows",
        present: || wine().is_some(),
    },
    Need {
        what: "nm",
        package: "binutils",
        without: "programs are not searched for the platform's fmaf",
        present: || command::on_path("nm"),
    },
];

/// What `cargo xtask python` uses.
pub const PYTHON: [Need; 2] = [
    Need {
        what: "Python",
        package: "python3",
        without: "the Python package is neither built nor tested",
        present: || command::on_path("python3"),
    },
    Need {
        what: "Python's virtual environments",
        package: "python3-venv",
        without: "the Python package is neither built nor tested",
        present: has_venv,
    },
];

/// What `cargo xtask python --wheels` uses besides.
pub const WHEELS: [Need; 3] = [
    PORTS[5],
    PORTS[4],
    Need {
        what: "an unpacker of other systems' packages",
        package: "mmdebstrap",
        without: "the wheel for AArch64 is not tried",
        present: || command::on_path("mmdebstrap"),
    },
];

/// Whether the interpreter that programs find first makes virtual environments.
fn has_venv() -> bool {
    let mut python = Command::new("python3");
    command::capture("python3", python.args(["-c", "import venv, ensurepip"])).is_ok()
}

/// The program that starts Windows programs: Debian's package puts it off the path.
pub fn wine() -> Option<&'static str> {
    const PROGRAMS: [&str; 3] = ["wine64", "/usr/lib/wine/wine64", "wine"];
    let here = |program: &&&str| command::on_path(program) || Path::new(program).is_file();
    PROGRAMS.iter().find(here).copied()
}

/// What the user said of installing packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// `--yes`, or `CI=true` in the environment.
    Given,
    /// `--no-install`.
    Refused,
    /// Neither: on a terminal the verb prompts for it.
    Unknown,
}

/// Installs what is missing with the user's consent, or prints how; gives a line for each thing
/// that the verb does without.
pub fn prepare(consent: Consent, needs: &[Need]) -> Result<Vec<String>, String> {
    if consent != Consent::Refused {
        if command::on_path("apt-get") && command::on_path("dpkg-query") {
            apt_install(consent, needs)?;
        } else if needs.iter().any(|need| !(need.present)()) {
            eprintln!(
                "xtask: install what is missing with:\n  {}",
                commands_here()
            );
        }
    }
    let missing = needs.iter().filter(|need| !(need.present)());
    Ok(missing
        .map(|need| format!("{} is not installed: {}", need.what, need.without))
        .collect())
}

/// Whether programs here can use Vulkan at all.
pub fn has_vulkan() -> bool {
    TESTS[..2].iter().all(|need| (need.present)())
}

/// Whether the validation layer is here.
pub fn has_validation() -> bool {
    (TESTS[2].present)()
}

fn apt_install(consent: Consent, needs: &[Need]) -> Result<(), String> {
    let missing: Vec<&Need> = needs
        .iter()
        .filter(|need| !installed(need.package) && (need.package != CHROMIUM || wants_chromium()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing_packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let packages = missing_packages.join(" ");
    let Some(prefix) = as_root() else {
        eprintln!("xtask: neither root nor sudo; install by hand: apt-get install {packages}");
        return Ok(());
    };
    eprintln!("{}", announcement(&missing, prefix));
    let terminal = stdin().is_terminal();
    if let Err(reason) = decide(consent, terminal, &mut stdin().lock()) {
        eprintln!("xtask: installs nothing: {reason}");
        return Ok(());
    }
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
    let install = [
        &["install", "-y", "--no-install-recommends"],
        &missing_packages[..],
    ]
    .concat();
    step(&format!("installing {packages}"), || {
        apt(&["update", "-q"])?;
        apt(&install)
    })
    .map_err(|error| format!("{error}\nwith --no-install the verb goes on without"))
}

/// What will be installed, how, and what for.
fn announcement(missing: &[&Need], prefix: &[&str]) -> String {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let command = [prefix, &["apt-get", "install"], &packages[..]].concat();
    let mut lines = vec![format!("xtask: will run {}", command.join(" "))];
    let purpose = |need: &&Need| format!("  {}: {}", need.package, need.what);
    lines.extend(missing.iter().map(purpose));
    lines.join("\n")
}

/// Whether to install: an error says why not. Only an answer of `y` or `yes` agrees.
fn decide(consent: Consent, terminal: bool, answers: &mut impl BufRead) -> Result<(), String> {
    match consent {
        Consent::Given => return Ok(()),
        Consent::Refused => return Err("--no-install".to_string()),
        Consent::Unknown if !terminal => {
            return Err(
                "standard input is not a terminal, and neither --yes nor CI=true is \
                        given; goes on with what is here"
                    .to_string(),
            );
        }
        Consent::Unknown => {}
    }
    eprint!("Install them? [y/N] ");
    let mut answer = String::new();
    answers
        .read_line(&mut answer)
        .map_err(|error| format!("standard input: {error}"))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("you said no; the tests go on with what is here".to_string()),
    }
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

/// Whether there is a browser that the tests of the page know.
fn has_browser() -> bool {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    names.iter().any(|name| command::on_path(name))
}

/// Whether Chromium is to be installed: on Debian, where there is no browser.
fn wants_chromium() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| line == "ID=debian") && !has_browser()
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
        return true; // Windows has them in the registry; the tests themselves find out.
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

#[cfg(test)]
mod tests {
    use super::{Consent, TESTS, announcement, decide};

    #[test]
    fn the_packages_and_their_purpose_are_said_before_anything_is_installed() {
        let missing = [&TESTS[0], &TESTS[3]];
        assert_eq!(
            announcement(&missing, &["sudo"]),
            "xtask: will run sudo apt-get install libvulkan1 spirv-tools\n\
             \x20 libvulkan1: the Vulkan loader\n\
             \x20 spirv-tools: spirv-val"
        );
        let as_root = announcement(&missing, &[]);
        assert!(as_root.starts_with("xtask: will run apt-get install libvulkan1"));
    }

    #[test]
    fn nothing_is_installed_without_consent() {
        let decide = |consent, terminal, answer: &str| {
            decide(consent, terminal, &mut answer.as_bytes()).map_err(|reason| reason.len() > 5)
        };
        assert_eq!(decide(Consent::Given, false, ""), Ok(()));
        assert_eq!(decide(Consent::Refused, true, "y\n"), Err(true));
        assert_eq!(decide(Consent::Unknown, false, "y\n"), Err(true));
        for yes in ["y\n", "Yes\n", " y \n"] {
            assert_eq!(decide(Consent::Unknown, true, yes), Ok(()), "{yes}");
        }
        for no in ["", "\n", "n\n", "yep\n"] {
            assert_eq!(decide(Consent::Unknown, true, no), Err(true), "{no}");
        }
    }
}
