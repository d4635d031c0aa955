//! What the sections of the results share: the device, the programs beside it, and where files go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Device, DeviceKind};

use crate::facts::facts;
use crate::table::Facts;

/// The device that is measured, and what is measured beside it.
pub struct Bench {
    /// What `--device` takes.
    pub device: String,
    /// What the device is.
    pub kind: DeviceKind,
    /// The folder of the files.
    pub out: PathBuf,
    /// The Python with PyTorch.
    pub python: String,
    /// The folder of peers.py and the other scripts.
    pub scripts: PathBuf,
    /// The folder of other programs, as benches/peers/pack.sh makes it.
    pub programs: PathBuf,
    /// The program hlx, which runs several ranks.
    pub hlx: PathBuf,
    /// Small sizes, to see that everything works.
    pub quick: bool,
    /// A sentence for the files.
    note: Option<String>,
    /// Names the device.
    name: String,
    /// The folder of what is not kept.
    scratch: PathBuf,
}

impl Bench {
    /// Describes the device.
    ///
    /// # Errors
    /// A device that cannot be opened, a folder that cannot be made.
    pub fn new(arguments: &super::Arguments) -> Result<Self> {
        let device = Device::open_from_env(&arguments.device)?;
        let scratch = std::env::temp_dir().join(format!("hlx-results-{}", std::process::id()));
        for folder in [&arguments.out, &scratch] {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let beside = |name: &str| -> Result<PathBuf> {
            let own = std::env::current_exe().context("this program's path")?;
            Ok(own.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
        };
        let scripts = match (&arguments.scripts, crate::peers::default_script().parent()) {
            (Some(scripts), _) => scripts.clone(),
            (None, Some(scripts)) => scripts.to_owned(),
            (None, None) => PathBuf::new(),
        };
        Ok(Self {
            device: device.info().selector.clone(),
            kind: device.info().kind,
            out: arguments.out.clone(),
            python: arguments.python.clone(),
            programs: arguments
                .programs
                .clone()
                .unwrap_or_else(|| scripts.join("built")),
            scripts,
            hlx: arguments.hlx.clone().map_or_else(|| beside("hlx"), Ok)?,
            quick: arguments.quick,
            note: arguments.note.clone(),
            name: device.info().name.clone(),
            scratch,
        })
    }

    /// Whether the device computes on the CPU, itself or by a software driver.
    pub fn is_on_cpu(&self) -> bool {
        self.kind != DeviceKind::VulkanGpu
    }

    /// Whether PyTorch can run on the same device.
    pub fn has_cuda(&self) -> bool {
        !self.is_on_cpu() && self.name.contains("NVIDIA")
    }

    /// The device of PyTorch: the GPU, or the CPU for devices that compute there.
    pub fn peer_device(&self) -> &'static str {
        if self.has_cuda() { "cuda" } else { "cpu" }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn open(&self) -> Result<Device> {
        Ok(Device::open_from_env(&self.device)?)
    }

    /// The facts of a section: date, device, driver, the command that measures it again, and the kind of device.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn facts(&self, section: &str) -> Result<Facts> {
        let mut facts = facts(&self.open()?);
        let quick = if self.quick { " --quick" } else { "" };
        let command = format!(
            "cargo xtask bench results --only {section} --device {}{quick}",
            self.device
        );
        for (key, value) in &mut facts {
            if key == "command" {
                value.clone_from(&command);
            }
        }
        let kind = match self.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::VulkanGpu => "gpu",
            DeviceKind::VulkanSoftware => "software driver",
        };
        facts.push(("kind".to_owned(), kind.to_owned()));
        facts.extend(self.note.clone().map(|note| ("note".to_owned(), note)));
        Ok(facts)
    }

    /// A script of the folder.
    ///
    /// # Errors
    /// There is no such file.
    pub fn script(&self, name: &str) -> Result<PathBuf> {
        let path = self.scripts.join(name);
        ensure!(
            path.is_file(),
            "{}: there is no such file (--scripts names the folder of benches/peers)",
            path.display()
        );
        Ok(path)
    }

    /// A command of Python with a script, its input and output as pipes.
    ///
    /// # Errors
    /// There is no such script.
    pub fn python(&self, script: &str) -> Result<Command> {
        let mut command = Command::new(&self.python);
        command.arg(self.script(script)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }

    /// Runs a verb of this program in a process of its own and gives what it printed.
    ///
    /// # Errors
    /// The verb failed; its messages are on standard error.
    pub fn own(&self, verb: &[&str]) -> Result<String> {
        self.own_on(&self.device, verb)
    }

    /// As [`Self::own`], on another device.
    ///
    /// # Errors
    /// As [`Self::own`].
    pub fn own_on(&self, device: &str, verb: &[&str]) -> Result<String> {
        let mut command = Command::new(std::env::current_exe().context("this program's path")?);
        command.args(verb).args(["--device", device]);
        // The variable would win over the argument.
        command.env_remove("HLX_DEVICE");
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        output_of(&mut command, verb[0])
    }

    /// An empty folder for what a verb writes.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.scratch.join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Where the rows of a file go while it is measured: an interrupted section does not pass for a whole one.
    pub fn partial(&self, name: &str) -> PathBuf {
        self.out.join(format!("{name}.partial"))
    }

    /// Gives a file that was measured whole its name, if it was written in parts.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn finish(&self, name: &str) -> Result<()> {
        let partial = self.partial(name);
        if partial.is_file() {
            std::fs::rename(&partial, self.out.join(name)).with_context(|| name.to_owned())?;
        }
        Ok(())
    }

    /// Copies a file that a verb has written to the results, whole or not at all.
    ///
    /// # Errors
    /// There is no such file; what the disk reports.
    pub fn keep(&self, folder: &Path, name: &str) -> Result<()> {
        let mut text =
            std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned())?;
        if let Some(note) = &self.note {
            text.insert_str(0, &format!("# note: {note}\n"));
        }
        hlx_core::files::write_atomically(&self.out.join(name), text.as_bytes())
            .with_context(|| name.to_owned())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// What a command prints, if it succeeds.
///
/// # Errors
/// It cannot be run, or failed.
pub fn output_of(command: &mut Command, what: &str) -> Result<String> {
    let output = command.output().with_context(|| what.to_owned())?;
    ensure!(output.status.success(), "{what}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
