//! A folder of short runs on one device: starts them, kills them, and says where they were.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::crew::Crew;

/// Steps of a run, with a checkpoint every second one: about as long as the start of a program.
const STEPS: u64 = 24;

/// Small enough for a software Vulkan driver, with dropout, a held-out part and epochs that end
/// between checkpoints.
const CONFIG: &str = r#"seed = 11

[model]
width = 16
n_layers = 1
n_heads = 2
positions = 16
dropout = 0.1

[data]
path = "corpus.jsonl"
format = "pairs"
eval_fraction = 0.2

[train]
max_steps = 24
batch_size = 4
learning_rate = 0.01
log_every = 1
eval_every = 5
checkpoint_every = 2
keep = 2
"#;

/// How a program ended.
pub enum Ended {
    /// By itself, at the run's end.
    Whole,
    /// By SIGKILL, in this phase.
    Killed(&'static str),
}

/// The folder, and the run left alone.
pub struct Place {
    path: PathBuf,
    program: PathBuf,
    device: &'static str,
    duration: Duration,
    expected: String,
}

impl Place {
    /// Makes the folder, and trains the run left alone twice: the first fills the caches.
    pub fn new(path: &Path, program: &Path, device: &'static str) -> Result<Self, String> {
        let made = fs::create_dir_all(path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        let mut place = Self {
            path: path.to_owned(),
            program: program.to_owned(),
            device,
            duration: Duration::ZERO,
            expected: String::new(),
        };
        place.write("config.toml", CONFIG)?;
        place.write("corpus.jsonl", &corpus())?;
        for name in ["first", "whole"] {
            let begun = Instant::now();
            let run = place.join(name);
            match place.attempt(&run, None, Crew::ALONE)? {
                Ended::Whole => place.duration = begun.elapsed(),
                Ended::Killed(_) => return Err(format!("{name}: killed by somebody else")),
            }
        }
        place.expected = place.digests(&place.join("whole"))?;
        Ok(place)
    }

    pub fn device(&self) -> &'static str {
        self.device
    }

    /// How long the run left alone takes.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// The digests of the run left alone.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn hlx(&self, arguments: &[&str], run: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.path).args(arguments).arg(run);
        command.env("HLX_DEVICE", self.device);
        command.env("HLX_CACHE_DIR", self.join("cache"));
        command
    }

    /// Begins or resumes a run, and kills it at a moment, unless it has ended before. A run that
    /// ends by itself must succeed, and a killed one must retain the checkpoints that it had.
    pub fn attempt(
        &self,
        run: &Path,
        moment: Option<Duration>,
        crew: Crew,
    ) -> Result<Ended, String> {
        let before = newest(run);
        let log = self.join("stderr.txt");
        let mut command = self.hlx(&["train", "config.toml", "--out"], run);
        if run.exists() {
            command.arg("--resume");
        }
        let mut command = crew.command(command, self.device);
        let stderr = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        command.stdout(Stdio::null()).stderr(stderr);
        let spawned = command.spawn();
        let mut child =
            spawned.map_err(|error| format!("cannot run {}: {error}", self.program.display()))?;
        if wait(&mut child, moment)? || crew.kill(&mut child, &self.program)? {
            let status = child.wait().map_err(|error| error.to_string())?;
            if status.success() {
                return Ok(Ended::Whole);
            }
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!(
                "{}: {status} where it should have gone on after step {before:?}: {}",
                run.display(),
                said.trim()
            ));
        }
        let after = newest(run);
        if after < before {
            return Err(format!(
                "{}: had a checkpoint of step {before:?} before the kill, and {after:?} after it",
                run.display()
            ));
        }
        Ok(Ended::Killed(phase(run, before)))
    }

    /// Fails unless a run has the digests of the run left alone and a chain that is equal to its
    /// recomputation on the CPU.
    pub fn check(&self, run: &Path) -> Result<(), String> {
        let found = self.digests(run)?;
        if found != self.expected {
            let (run, expected) = (run.display(), &self.expected);
            return Err(format!("{run}: ended in {found}, expected {expected}"));
        }
        let mut verify = self.hlx(&["verify"], run);
        let said = verify.env("HLX_DEVICE", "cpu").output();
        let said = said.map_err(|error| format!("hlx verify: {error}"))?;
        if said.status.success() {
            return Ok(());
        }
        Err(format!(
            "{}: hlx verify: {}{}",
            run.display(),
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        ))
    }

    /// The digests of parameters and optimizer state, as `hlx digest` prints them.
    fn digests(&self, run: &Path) -> Result<String, String> {
        let said = crate::command::capture("hlx digest", &mut self.hlx(&["digest"], run))?;
        let of = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name));
            line.map(|digest| digest.trim().to_owned())
                .ok_or_else(|| format!("hlx digest {}: no {name}in: {said}", run.display()))
        };
        let step = of("step ")?;
        if step != STEPS.to_string() {
            return Err(format!(
                "{}: ended at step {step}, expected {STEPS}",
                run.display()
            ));
        }
        Ok(format!("{} {}", of("parameters ")?, of("optimizer ")?))
    }
}

/// Waits for a program until a moment; `true` if it has ended before.
pub fn wait(child: &mut Child, moment: Option<Duration>) -> Result<bool, String> {
    let begun = Instant::now();
    loop {
        if child
            .try_wait()
            .map_err(|error| error.to_string())?
            .is_some()
        {
            return Ok(true);
        }
        let left = moment.map(|moment| moment.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let pause = left.unwrap_or(Duration::MAX).min(Duration::from_millis(5));
        std::thread::sleep(pause);
    }
    Ok(false)
}

/// The step of the newest checkpoint.
fn newest(run: &Path) -> Option<u64> {
    let steps = names(&run.join("checkpoints")).into_iter();
    steps
        .filter_map(|name| name.strip_prefix("step-")?.parse().ok())
        .max()
}

/// The names in a folder; none of one that is not there.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// What a killed run was doing, as far as its folder shows it.
fn phase(run: &Path, before: Option<u64>) -> &'static str {
    let is_temporary = |name: &String| name.ends_with(".tmp");
    let has = |name: &str| run.join(name).exists();
    let is_torn = |name: &str| {
        fs::read(run.join(name)).is_ok_and(|bytes| bytes.last().is_some_and(|&last| last != b'\n'))
    };
    if !run.exists() {
        "before the run folder"
    } else if !has("config.toml") {
        "before the first file of the run"
    } else if names(&run.join("checkpoints")).iter().any(is_temporary) {
        "while a checkpoint was written or removed"
    } else if names(run).iter().any(is_temporary) {
        "while a file of the run was replaced"
    } else if is_torn("chain.jsonl") || is_torn("metrics.jsonl") {
        "within a line of the chain or the metrics"
    } else if !has("metrics.jsonl") {
        "while the run was prepared"
    } else if newest(run) == Some(STEPS) {
        "after the last checkpoint"
    } else if newest(run) == before {
        "before the first checkpoint of a start or resumption"
    } else {
        "between checkpoints"
    }
}

/// 20 pairs with distinct inputs.
fn corpus() -> String {
    let pair = |n: usize| format!("{{\"input\": \"no {n}\", \"output\": \"{}\"}}\n", n * n);
    (0..20).map(pair).collect()
}
