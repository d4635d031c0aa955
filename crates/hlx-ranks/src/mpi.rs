//! The transport through an installed MPI library, between machines or on one.
//!
//! The library is opened when the program runs, so that neither a build nor a run without it needs one.
//! Two binary interfaces are in use: Open MPI's handles are pointers, those of MPICH and what is made
//! from it (Intel MPI, MVAPICH) are ints. The library's own version says which it is. A dead peer is
//! noticed by life signs beside it ([`Links`]), not by MPI, whose calls then wait for ever.

mod interface;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::interface::{Interface, Pending};
use crate::links::Links;
use crate::links::place::Place;
use crate::links::reach::Reach;
use crate::pause::Pause;
use crate::transport::{Transport, host_name};
use crate::watch::Watch;
use crate::{Group, RankError, Refusal, Result, Secret};

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
    /// The life signs, once all ranks are linked.
    links: OnceLock<(Arc<Links>, Watch)>,
    /// Held during a call. Whether the library may be called no more: it is finalised, or a call was
    /// left because a rank is lost.
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
            links: OnceLock::new(),
            ended: Mutex::new(false),
        })
    }

    /// Links all ranks for their life signs; all call it, before any other call. `when_lost` is called,
    /// on another thread, if a rank is lost and this one has not noticed it in a call for 10 s: a process
    /// ends itself there, and not by way of the library.
    ///
    /// # Errors
    /// Those of a call between ranks; as the inner one, the same on all ranks, that one cannot be linked.
    pub fn connect(
        &self,
        group: &Group,
        when_lost: impl Fn(&RankError) + Send + 'static,
    ) -> Result<Result<(), Refusal>> {
        // What MPI itself carries is as safe as its network: it carries the secret of the life signs, too.
        let secret = group.from_first(Secret::random()?.to_text().as_bytes())?;
        let secret = Secret::from_text(&String::from_utf8_lossy(&secret));
        let hosts = group.gather(host_identity().as_bytes())?;
        let reach = match hosts.iter().all(|host| *host == hosts[0]) {
            true => Reach::Loopback,
            false => Reach::Everywhere,
        };
        let (listener, mine) = Place::listen(&reach)
            .map_err(|error| error.to_string())
            .map_or_else(
                |line| (Err(line.clone()), Err(line)),
                |(listener, place)| (Ok(listener), Ok(place.to_line())),
            );
        let lines = match group.agree(mine.as_ref().map(String::as_bytes).map_err(String::clone))? {
            Ok(lines) => lines,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let places = lines
            .iter()
            .map(|line| Place::from_line(&String::from_utf8_lossy(line)));
        let places: Option<Vec<Place>> = places.collect();
        let linked = listener.and_then(|listener| {
            let places = places.ok_or("ranks: a place that is none")?;
            let secret = secret.ok_or("ranks: a secret that is none")?;
            let linked = Links::connect(self.rank, listener, places, secret);
            let links = Arc::new(linked.map_err(|error| error.to_string())?);
            Ok((links.clone(), Watch::start(links, when_lost)))
        });
        let agreed = match &linked {
            Ok(_) => group.agree(Ok(&[]))?,
            Err(line) => group.agree(Err(line.clone()))?,
        };
        if let (Ok(_), Ok(linked)) = (&agreed, linked) {
            linked.0.stop_listening();
            let _ = self.links.set(linked);
        }
        Ok(agreed.map(drop))
    }

    fn links(&self) -> Option<&Links> {
        self.links.get().map(|(links, _)| &**links)
    }

    fn failed(&self, rank: usize, code: i32) -> RankError {
        let host = self.host(rank);
        let reason = format!("{}: error {code} in a message", self.interface.name());
        let failure = RankError::Lost { rank, host, reason };
        match self.links() {
            Some(links) => links.check_after(failure),
            None => failure,
        }
    }

    /// Sends and receives one message each; both are done when it returns without an error.
    fn swap_once(&self, peer: usize, out: Option<&[u8]>, into: Option<&mut [u8]>) -> Result<()> {
        let failed = |code| self.failed(peer, code);
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
            if !pending.is_empty() && pause.wait() {
                self.links().map_or(Ok(()), Links::check)?;
            }
        }
        Ok(())
    }
}

/// What only the processes with one loopback have in common: the machine's start and its network, beside its name. Where
/// the system does not tell them, no two hosts are taken for one.
fn host_identity() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let network = std::fs::read_link("/proc/self/ns/net");
    match (boot, network) {
        (Ok(boot), Ok(network)) => format!("{} {} {}", host_name(), boot.trim(), network.display()),
        _ => format!("process {}", std::process::id()),
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
        let links = self.links();
        links.map_or_else(|| "its host".to_owned(), |links| links.host(rank))
    }

    fn swap(&self, peer: usize, out: &[u8], into: &mut [u8]) -> Result<()> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *ended {
            let over = || self.failed(peer, 0);
            return Err(self.lost().unwrap_or_else(over));
        }
        let (mut out, mut into) = (out.chunks(MESSAGE), into.chunks_mut(MESSAGE));
        loop {
            let (out, into) = (out.next(), into.next());
            if out.is_none() && into.is_none() {
                return Ok(());
            }
            if let Err(error) = self.swap_once(peer, out, into) {
                // A message may still be under way into memory that the caller has back: no call of the
                // library, which would continue it, comes after this.
                *ended = true;
                return Err(error);
            }
        }
    }

    fn carries_data(&self) -> bool {
        true
    }

    fn fail(&self, line: &str) {
        // The launcher ends the others as this process ends without MPI_Finalize; MPI_Abort may hang.
        match self.links() {
            Some(links) => links.fail(line),
            None => self.interface.abort(),
        }
    }

    fn leave(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *ended, true) {
            if let Some(links) = self.links() {
                links.leave();
            }
            // A peer that dies before its own end makes this call hang: the watch runs on until then.
            self.interface.finalize();
        }
        self.links().inspect(|links| links.end());
    }

    fn lost(&self) -> Option<RankError> {
        self.links()?.lost()
    }
}
