//! The ranks of a run: with `hlx train --devices` the process that the user starts is rank 0 and starts
//! the others; under `mpirun`, `srun` or `torchrun` all have been started.

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hlx_train::ranks::{Group, Refused, Secret, SharedMemory, Sockets, one_line};
use hlx_train::train::{NotFinite, Outcome};

use crate::interrupt::{STATUS, exit_now};

/// The number of a rank that rank 0 has started, the folder of their shared memory, and the secret that rank 0 has
/// drawn for them.
const RANK: &str = "HLX_RANK";
const FOLDER: &str = "HLX_RANK_FOLDER";
const SECRET: &str = "HLX_RANK_SECRET";
/// The exit status of ranks that cannot begin together.
const REFUSED: u8 = 2;
/// The exit status of a run whose loss or parameters are NaN or infinite.
const NOT_FINITE: u8 = 3;
/// The most ranks: one per shard.
const MAX_RANKS: usize = 64;
/// How long rank 0 waits for the others to end before it ends them.
const END: Duration = Duration::from_secs(10);

/// How long a rank under a launcher stays after its last line.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// This process among the ranks of a run.
pub struct Crew {
    group: Group,
    /// Where rank 0 has started the others: held open until the process ends.
    _shared: Option<Arc<SharedMemory>>,
    /// On rank 0, the others.
    children: Mutex<Vec<Child>>,
    /// Why the ranks cannot begin together.
    refusal: Option<Refused>,
    /// Whether the process ends without the exit handlers of libraries once a rank is lost: those of MPI
    /// wait for it.
    ends_at_once: bool,
}

impl Crew {
    /// Starts the other ranks, one per device, or joins those that a rank 0 has started; alone with one
    /// device or none.
    ///
    /// # Errors
    /// One line: a rank that does not start, the system's message.
    pub fn join(n_ranks: usize) -> Result<Self> {
        if let Some(rank) = std::env::var_os(RANK) {
            let folder = PathBuf::from(std::env::var_os(FOLDER).context(FOLDER)?);
            let rank = rank.to_string_lossy().parse().context(RANK)?;
            let secret = std::env::var(SECRET).ok();
            let secret = secret.and_then(|text| Secret::from_text(&text));
            let secret = secret.with_context(|| {
                format!("{SECRET}: expected what `hlx train --devices` sets beside {RANK}")
            })?;
            let shared = SharedMemory::open(&folder, rank, &secret, end)?;
            return Self::connected(shared, Vec::new());
        }
        if Sockets::is_innermost() {
            return Self::by_sockets();
        }
        #[cfg(unix)]
        if hlx_train::ranks::Mpi::is_launched() {
            return Self::by_mpi();
        }
        if Sockets::is_launched() {
            return Self::by_sockets();
        }
        if n_ranks < 2 {
            return Ok(Self::of(Group::alone()));
        }
        let secret = Secret::random()?;
        let folder = SharedMemory::create(n_ranks, &secret)?;
        let shared = SharedMemory::open(&folder, 0, &secret, end)
            .inspect_err(|_| SharedMemory::remove(&folder))?;
        let start = |rank: usize| -> Result<Child> {
            let program = std::env::current_exe()?;
            let mut command = Command::new(&program);
            command.args(std::env::args_os().skip(1));
            command.env(RANK, rank.to_string()).env(FOLDER, &folder);
            command.env(SECRET, secret.to_text());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let started = command.spawn();
            started.with_context(|| format!("{}: cannot be started", program.display()))
        };
        let children = (1..n_ranks).map(start).collect::<Result<Vec<Child>>>();
        if children.is_err() {
            shared.remove_folder();
        }
        Self::connected(shared, children?)
    }

    fn of(group: Group) -> Self {
        Self {
            group,
            _shared: None,
            children: Mutex::new(Vec::new()),
            refusal: None,
            ends_at_once: false,
        }
    }

    #[cfg(unix)]
    fn by_mpi() -> Result<Self> {
        let mpi = Arc::new(hlx_train::ranks::Mpi::start()?);
        let group = Group::new(mpi.clone());
        if group.is_alone() {
            return Ok(Self::of(group));
        }
        let refusal = match mpi.connect(&group, end)? {
            Ok(()) => None,
            Err(refusal) => Some(Refused(refusal.line)),
        };
        Ok(Self {
            refusal,
            ends_at_once: true,
            ..Self::of(group)
        })
    }

    fn by_sockets() -> Result<Self> {
        let group = Group::new(Arc::new(Sockets::start(end)?));
        Ok(Self {
            ends_at_once: true,
            ..Self::of(group)
        })
    }

    fn connected(shared: SharedMemory, mut children: Vec<Child>) -> Result<Self> {
        let ended = || {
            children.iter_mut().enumerate().find_map(|(place, child)| {
                let status = child.try_wait().ok().flatten()?;
                Some((place + 1, format!("has ended at its start: {status}")))
            })
        };
        let connected = shared.connect(ended);
        let shared = Arc::new(shared);
        let group = Group::new(shared.clone());
        let connected = connected.and_then(|()| group.barrier());
        if group.is_first() || connected.is_err() {
            shared.remove_folder();
        }
        connected?;
        Ok(Self {
            _shared: Some(shared),
            children: Mutex::new(children),
            ..Self::of(group)
        })
    }

    /// Fails if the ranks cannot begin together.
    ///
    /// # Errors
    /// [`Refused`], the same on all ranks.
    pub fn check(&self) -> Result<()> {
        self.refusal
            .clone()
            .map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// The ranks as this one sees them.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Ends after a run, with the status that says how it has ended: the same on all ranks, unless standard
    /// output was full.
    pub fn end(&self, outcome: &Outcome, is_printed: bool) -> ExitCode {
        self.wait();
        match &outcome.not_finite {
            _ if outcome.interrupted => ExitCode::from(STATUS),
            Some(_) => ExitCode::from(NOT_FINITE),
            None if !is_printed => ExitCode::FAILURE,
            None => ExitCode::SUCCESS,
        }
    }

    /// Ends after an error: rank 0 prints why the ranks do not begin together, or why all of them end, and each prints which rank
    /// has ended the run.
    pub fn fail(self, error: &anyhow::Error) -> ExitCode {
        let not_finite = error.downcast_ref::<NotFinite>().is_some();
        if self.group.is_alone() {
            crate::print::error(error);
            return match not_finite {
                true => ExitCode::from(NOT_FINITE),
                false => ExitCode::FAILURE,
            };
        }
        if not_finite {
            if self.group.is_first() {
                crate::print::error(error);
            }
            // All ranks end here after the same step: none is to be taken for lost by one that is a little behind.
            let left = self.group.leave();
            self.wait();
            return ExitCode::from(if left.is_ok() { NOT_FINITE } else { 1 });
        }
        if error.downcast_ref::<Refused>().is_some() {
            if self.group.is_first() {
                crate::print::error(error);
            }
            self.group.quit();
            self.wait();
            return ExitCode::from(REFUSED);
        }
        match self.group.lost() {
            Some(lost) => crate::print::error(&lost.into()),
            None => {
                // Printed first: a launcher may end this process once others end.
                let name = self.group.name(self.group.rank());
                crate::print::error(&anyhow::anyhow!("{name}: {}", one_line(error)));
                self.group.fail(&one_line(error));
            }
        }
        self.wait();
        if self.ends_at_once {
            // A launcher ends the others as soon as one ends: they print their line first.
            std::thread::sleep(LAST_WORDS);
            exit_now(1);
        }
        ExitCode::FAILURE
    }

    /// Waits for the ranks that this one has started, and ends those that do not end.
    pub fn wait(&self) {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        for mut child in children.drain(..) {
            while matches!(child.try_wait(), Ok(None)) {
                if begun.elapsed() > END {
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Ends a rank that computes on although another is lost, which no call of its own has noticed.
fn end(lost: &hlx_train::ranks::RankError) {
    crate::print::error(&lost.clone().into());
    exit_now(1);
}

/// The devices of `--devices`, one per rank.
///
/// # Errors
/// An empty name, and more devices than a step has shards.
pub fn devices(list: &str) -> Result<Vec<String>> {
    let devices: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    let n = devices.len();
    ensure!(
        n <= MAX_RANKS,
        "--devices: {n} devices, expected at most {MAX_RANKS}, as many as train.shards"
    );
    ensure!(
        devices.iter().all(|name| !name.is_empty()),
        "--devices {list}: a name is empty, expected such as cpu,vulkan:0"
    );
    Ok(devices)
}
