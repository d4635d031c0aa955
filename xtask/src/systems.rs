//! The systems that programs and wheels are published for, and how a build for one depends on the commit alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;

/// A system that programs are published for.
pub struct System {
    /// What `--only` and the archive's name call it.
    pub name: &'static str,
    /// Rust's name of it.
    pub target: &'static str,
    /// How zig names the age of its C library; other linkers take none.
    pub glibc: Option<&'static str>,
    /// Debian's name of the processor.
    pub debian: Option<&'static str>,
    /// The ending of programs.
    pub suffix: &'static str,
    /// A program without which it is not built.
    needs: Option<&'static str>,
}

/// zig links with the C library of that age, as for the wheels.
pub const SYSTEMS: [System; 3] = [
    System {
        name: "x86-64",
        target: "x86_64-unknown-linux-gnu",
        glibc: Some(".2.28"),
        debian: Some("amd64"),
        suffix: "",
        needs: None,
    },
    System {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        glibc: Some(".2.28"),
        debian: Some("arm64"),
        suffix: "",
        needs: None,
    },
    System {
        name: "windows",
        target: "x86_64-pc-windows-gnu",
        glibc: None,
        debian: None,
        suffix: ".exe",
        needs: Some("x86_64-w64-mingw32-gcc"),
    },
];

impl System {
    /// What is missing to build for it.
    pub fn missing(&self) -> Option<String> {
        let absent = self.needs.filter(|program| !command::on_path(program));
        if let Some(program) = absent {
            return Some(format!("no {program} on the path"));
        }
        let mut add = Command::new("rustup");
        add.args(["target", "add", self.target])
            .current_dir(command::root());
        // Without rustup the target may be there all the same: the build says it.
        match command::on_path("rustup") && command::capture("rustup", &mut add).is_err() {
            true => Some(format!("rustup cannot add {}", self.target)),
            false => None,
        }
    }
}

/// The time of the commit, or the one that SOURCE_DATE_EPOCH names, in seconds since 1970.
pub fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut log = Command::new("git");
            log.args(["log", "-1", "--format=%ct"]).current_dir(root);
            command::capture("git log", &mut log)?
        }
    };
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("SOURCE_DATE_EPOCH is `{text}`, expected seconds since 1970"))
}

/// The variables of a build whose bits depend on the commit and the toolchain alone.
pub fn environment(root: &Path, system: &System) -> Result<Vec<(&'static str, String)>, String> {
    let mut variables = vec![
        (
            "CARGO_TARGET_DIR",
            root.join("target/dist").display().to_string(),
        ),
        ("CARGO_INCREMENTAL", "0".to_owned()),
        ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false".to_owned()),
        ("SOURCE_DATE_EPOCH", epoch(root)?.to_string()),
        ("RUSTFLAGS", flags(root, system)?),
    ];
    if system.glibc.is_some() {
        variables.push(("CARGO_PROFILE_RELEASE_STRIP", "symbols".to_owned()));
    }
    Ok(variables)
}

/// Flags that take this machine's folders out of the programs.
fn flags(root: &Path, system: &System) -> Result<String, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home
        .ok_or("release: neither CARGO_HOME nor HOME is set")?
        .join("registry/src");
    let (root, sources) = (root.display(), sources.display());
    let mut flags = format!("--remap-path-prefix={root}=/hlx --remap-path-prefix={sources}=/cargo");
    if format!("{root}{sources}").contains(' ') {
        return Err(format!(
            "release: {root}: folders with spaces cannot be taken out of programs"
        ));
    }
    if system.glibc.is_none() {
        flags += " -Clink-arg=-Wl,--no-insert-timestamp";
    }
    Ok(flags)
}
