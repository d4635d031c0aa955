//! A storm over several ranks: which of them is killed, and whether the others end in time.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::random::Random;
use crate::mpi::Launcher;

/// How long the other ranks may take to end after one was killed.
const END: Duration = Duration::from_secs(30);

/// The ranks of one attempt, and the one that is killed.
#[derive(Clone, Copy)]
pub struct Crew {
    pub n_ranks: usize,
    victim: usize,
    /// `None` if rank 0 starts the others.
    launcher: Option<&'static Launcher>,
}

impl Crew {
    /// One process.
    pub const ALONE: Self = Self {
        n_ranks: 1,
        victim: 0,
        launcher: None,
    };

    /// Any power of two of ranks up to `most`, and any of them.
    pub fn random(most: usize, launcher: Option<&'static Launcher>, random: &mut Random) -> Self {
        let n_ranks = 1 << random.number(most.ilog2() as usize + 1);
        Self {
            n_ranks,
            victim: random.number(n_ranks),
            launcher: launcher.filter(|_| n_ranks > 1),
        }
    }

    /// The command that starts the ranks of `train`, a command of one process, on a device.
    pub fn command(&self, mut train: Command, device: &str) -> Command {
        let Some(launcher) = self.launcher else {
            if self.n_ranks > 1 {
                train.args(["--devices", &vec![device; self.n_ranks].join(",")]);
            }
            return train;
        };
        let mut command = Command::new(launcher.program);
        command
            .args(launcher.options)
            .args(["-n", &self.n_ranks.to_string()]);
        command.arg(train.get_program()).args(train.get_args());
        command.envs(
            train
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        if let Some(folder) = train.get_current_dir() {
            command.current_dir(folder);
        }
        command
    }

    /// The process of the rank that is killed, and those of the others, as far as they have started.
    /// `child` is rank 0, or the launcher.
    fn processes(&self, child: u32, program: &Path) -> (Option<u32>, Vec<u32>) {
        if self.launcher.is_some() {
            let all = launched(program);
            let victim = all.iter().find(|(rank, _)| *rank == self.victim);
            let victim = victim.map(|(_, pid)| *pid);
            return (victim, all.iter().map(|(_, pid)| *pid).collect());
        }
        let others = children(child);
        let victim = match self.victim {
            0 => Some(child),
            rank => others.get(rank - 1).copied(),
        };
        (victim, others)
    }

    /// Kills the rank, and waits until all have ended. `child` is rank 0, or the launcher of ranks of
    /// `program`. `true` if a rank could no longer be killed, as the run had ended.
    ///
    /// # Errors
    /// Ranks that continue for 30 s after one was killed.
    pub fn kill(&self, child: &mut Child, program: &Path) -> Result<bool, String> {
        let (victim, mut others) = self.processes(child.id(), program);
        // A rank that has not been started yet, or has ended: rank 0, or the launcher, in its place.
        let pid = victim.unwrap_or(child.id());
        let kill = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status();
        kill.map_err(|error| format!("kill: {error}"))?;
        let begun = Instant::now();
        let status = loop {
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            if self.launcher.is_some() {
                // A launcher that was killed may have started ranks in the meantime.
                others = launched(program).into_iter().map(|(_, pid)| pid).collect();
            }
            if let Some(status) = ended.filter(|_| others.iter().all(|pid| !is_there(*pid))) {
                break status;
            }
            // Open MPI's launcher may hang itself when a process is killed within MPI_Init.
            let hangs = begun.elapsed() > END / 3 && others.is_empty() && self.launcher.is_some();
            if hangs {
                child.kill().map_err(|error| error.to_string())?;
            }
            if begun.elapsed() > END {
                return Err(format!("rank {} was killed, and others go on", self.victim));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(status.success())
    }
}

/// The processes that a process has started, in order.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let listed = fs::read_to_string(path).unwrap_or_default();
    let pids = listed.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

/// The ranks of a program that a launcher of MPI has started, with their numbers.
fn launched(program: &Path) -> Vec<(usize, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let rank = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_string_lossy().parse().ok()?;
        let arguments = fs::read(entry.path().join("cmdline")).ok()?;
        let first = arguments.split(|&byte| byte == 0).next()?;
        if first != program.as_os_str().as_encoded_bytes() {
            return None;
        }
        let variables = fs::read(entry.path().join("environ")).ok()?;
        let variables = String::from_utf8_lossy(&variables).into_owned();
        let number = |name: &str| {
            let mut all = variables.split('\0');
            all.find_map(|one| one.strip_prefix(name)?.parse().ok())
        };
        let rank = number("OMPI_COMM_WORLD_RANK=").or_else(|| number("PMI_RANK="))?;
        Some((rank, pid))
    };
    entries.filter_map(rank).collect()
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
