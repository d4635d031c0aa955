//! A storm over several ranks: which of them is killed, and whether the others end in time.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::random::Random;

/// How long the other ranks may take to end after one was killed.
const END: Duration = Duration::from_secs(30);

/// The ranks of one attempt, and the one that is killed.
#[derive(Clone, Copy)]
pub struct Crew {
    pub n_ranks: usize,
    victim: usize,
}

impl Crew {
    /// One process.
    pub const ALONE: Self = Self {
        n_ranks: 1,
        victim: 0,
    };

    /// Any power of two of ranks up to `most`, and any of them.
    pub fn random(most: usize, random: &mut Random) -> Self {
        let n_ranks = 1 << random.number(most.ilog2() as usize + 1);
        Self {
            n_ranks,
            victim: random.number(n_ranks),
        }
    }

    /// The devices of the ranks, as `--devices` has them.
    pub fn devices(&self, device: &str) -> String {
        vec![device; self.n_ranks].join(",")
    }

    /// Kills the rank, and waits until all have ended. `child` is rank 0. `true` if a rank could no
    /// longer be killed, as the run had ended.
    ///
    /// # Errors
    /// Ranks that go on for 30 s after one was killed.
    pub fn kill(&self, child: &mut Child) -> Result<bool, String> {
        let others = children(child.id());
        let victim = match self.victim {
            0 => Some(child.id()),
            rank => others.get(rank - 1).copied(),
        };
        // A rank that has not been started yet, or has ended: rank 0 in its place.
        let pid = victim.unwrap_or(child.id());
        let kill = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status();
        kill.map_err(|error| format!("kill: {error}"))?;
        let begun = Instant::now();
        let status = loop {
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = ended.filter(|_| others.iter().all(|pid| !is_there(*pid))) {
                break status;
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

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
