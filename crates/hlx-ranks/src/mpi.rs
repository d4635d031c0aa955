//! The transport through an installed MPI library, between machines or on one.
//!
//! The library is opened when the program runs, so that neither a build nor a run without it needs one.
//! Two binary interfaces are in use: Open MPI's handles are pointers, those of MPICH and what is made
//! from it (Intel MPI, MVAPICH) are ints. The library's own version says which it is.

mod interface;

use std::sync::{Mutex, OnceLock, PoisonError};

use self::interface::{Interface, Pending};
use crate::pause::Pause;
use crate::transport::{Transport, host_name};
use crate::{Group, RankError, Result};

/// The variable that names the library to open.
const LIBRARY: &str = "HLX_MPI";
/// What a launcher sets for the processes that it starts, the name of the number of all of them, and the
/// libraries that it is of.
const LAUNCHERS: [(&str, Option<&str>, Libraries); 4] = [
    (
        "OMPI_COMM_WORLD_RANK",
        Some("OMPI_COMM_WORLD_SIZE"),
        Libraries::OpenMpi,
    ),
    ("PMI_RANK", Some("PMI_SIZE"), Libraries::Mpich),
    ("PMIX_RANK", None, Libraries::OpenMpi),
    (
        "SLURM_PROCID",
        Some("SLURM_STEP_NUM_TASKS"),
        Libraries::Mpich,
    ),
];
const OPEN_MPI: [&str; 2] = ["libmpi.so.40", "libmpi.so"];
const MPICH: [&str; 3] = ["libmpich.so.12", "libmpi.so.12", "libmpich.so"];
/// Bytes of one message; MPI counts them by a C int.
const MESSAGE: usize = 1 << 28;

/// Which libraries are tried first.
#[derive(Clone, Copy)]
enum Libraries {
    OpenMpi,
    Mpich,
}

/// An initialised MPI library.
pub struct Mpi {
    interface: Box<dyn Interface>,
    rank: usize,
    n_ranks: usize,
    hosts: OnceLock<Vec<String>>,
    /// Whether it has been finalised.
    ended: Mutex<bool>,
}

impl Mpi {
    /// Whether a launcher of MPI has started this process as one of several.
    pub fn is_launched() -> bool {
        launcher().is_some()
    }

    /// Opens the library of the launcher and initialises it.
    ///
    /// # Errors
    /// [`RankError::Start`]: no library, one of an unknown interface, one that knows of one process where
    /// the launcher has started several.
    pub fn start() -> Result<Self> {
        let (libraries, expected) = launcher().unwrap_or((Libraries::OpenMpi, None));
        let names: Vec<String> = match std::env::var(LIBRARY) {
            Ok(path) if !path.is_empty() => vec![path],
            _ => {
                let (first, second): (&[&str], &[&str]) = match libraries {
                    Libraries::OpenMpi => (&OPEN_MPI, &MPICH),
                    Libraries::Mpich => (&MPICH, &OPEN_MPI),
                };
                first
                    .iter()
                    .chain(second)
                    .map(|name| (*name).to_owned())
                    .collect()
            }
        };
        let interface = interface::open(&names)?;
        let (rank, n_ranks) = interface.init()?;
        if let Some(expected) = expected.filter(|&expected| expected != n_ranks) {
            let reason = format!(
                "sees {n_ranks} ranks where {expected} were started: it is not the launcher's \
                 library; {LIBRARY} names another"
            );
            return Err(RankError::start(interface.name(), reason));
        }
        Ok(Self {
            interface,
            rank,
            n_ranks,
            hosts: OnceLock::new(),
            ended: Mutex::new(false),
        })
    }

    /// Gathers the names of the hosts; all ranks call it, before messages name any.
    ///
    /// # Errors
    /// Those of a call between ranks.
    pub fn gather_hosts(&self, group: &Group) -> Result<()> {
        let names = group.gather(host_name().as_bytes())?;
        let names = names
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned());
        let _ = self.hosts.set(names.collect());
        Ok(())
    }

    fn failed(&self, rank: usize, code: i32) -> RankError {
        RankError::Lost {
            rank,
            host: self.host(rank),
            reason: format!("{}: error {code} in a message", self.interface.name()),
        }
    }
}

/// The launcher that has started this process among others, and how many it says there are.
fn launcher() -> Option<(Libraries, Option<usize>)> {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let has_started =
        |(rank, n, _): &&(&str, Option<&str>, Libraries)| is_set(rank) && n.is_none_or(is_set);
    let found = LAUNCHERS.iter().find(has_started)?;
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let n_ranks = found.1.and_then(number);
    (n_ranks != Some(1)).then_some((found.2, n_ranks))
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn n_ranks(&self) -> usize {
        self.n_ranks
    }

    fn host(&self, rank: usize) -> String {
        let host = self.hosts.get().and_then(|hosts| hosts.get(rank));
        host.cloned().unwrap_or_else(|| "its host".to_owned())
    }

    fn swap(&self, peer: usize, out: &[u8], into: &mut [u8]) -> Result<()> {
        let failed = |code| self.failed(peer, code);
        let _one_call = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut out, mut into) = (out.chunks(MESSAGE), into.chunks_mut(MESSAGE));
        loop {
            let (out, into) = (out.next(), into.next());
            if out.is_none() && into.is_none() {
                return Ok(());
            }
            // Both messages are done before the slices are given back; after an error of MPI nothing but
            // the end of the program follows.
            let mut pending: Vec<Pending<'_>> = Vec::new();
            if let Some(into) = into {
                pending.push(self.interface.receive(peer, into).map_err(failed)?);
            }
            if let Some(out) = out {
                pending.push(self.interface.send(peer, out).map_err(failed)?);
            }
            let mut pause = Pause::default();
            while !pending.is_empty() {
                let mut still = Vec::new();
                for message in pending {
                    if let Some(message) = self.interface.test(message).map_err(failed)? {
                        still.push(message);
                    }
                }
                pending = still;
                if !pending.is_empty() {
                    pause.wait();
                }
            }
        }
    }

    fn fail(&self, _: &str) {
        // The launcher ends the others, and names this rank; the line is printed by the caller.
        self.interface.abort();
    }

    fn leave(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *ended, true) {
            self.interface.finalize();
        }
    }

    fn lost(&self) -> Option<RankError> {
        None
    }
}
