//! What the launcher says by its variables: which rank this is, and where all of them find each other.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::links::reach::Reach;
use crate::secret::Trust;
use crate::text::one_line;
use crate::{RankError, Result, Secret};

/// The variables that all launchers of PyTorch's kind set.
const VARIABLES: [&str; 5] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
];
/// Set by `torchrun`, whose own process then listens at `MASTER_PORT`.
const AGENT_LISTENS: &str = "TORCHELASTIC_USE_AGENT_STORE";
const RUN_ID: &str = "TORCHELASTIC_RUN_ID";
/// Set by `torchrun`: the ranks of this host.
const LOCAL_SIZE: &str = "LOCAL_WORLD_SIZE";
/// The variable that names another port than the launcher's.
pub(super) const PORT: &str = "HLX_PORT";
/// The most ranks.
const RANKS: usize = 1 << 16;

/// Whether the variables are set.
pub(super) fn is_launched() -> bool {
    VARIABLES
        .iter()
        .all(|name| std::env::var_os(name).is_some())
}

/// Whether `torchrun` itself has set them.
pub(super) fn has_agent() -> bool {
    std::env::var_os(RUN_ID).is_some()
}

/// How long ranks wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How long rank 0 may take to listen.
    pub first: Duration,
    /// How long all ranks may take to come.
    pub all: Duration,
    /// How long what listens at the port may take to show that it is rank 0.
    pub answer: Duration,
}

impl Limits {
    pub const USUAL: Self = Self {
        first: Duration::from_secs(60),
        all: Duration::from_secs(120),
        answer: Duration::from_secs(10),
    };
}

/// What the launcher has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub rank: usize,
    pub n_ranks: usize,
    pub local_rank: usize,
    pub master: String,
    pub port: u16,
    /// The name of the variable that the port is of, for messages.
    port_name: String,
    /// Whether all ranks are known to be of this host.
    pub is_one_host: bool,
    /// What the ranks of this run prove to each other before anything else is said.
    pub secret: Secret,
    /// Whether addresses of other hosts may be used.
    pub leaves_host: bool,
    pub limits: Limits,
}

impl Launch {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`RankError::Start`] with the variable and its value.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let text = |name: &str| {
            let value = variable(name).unwrap_or_default();
            value.to_string_lossy().into_owned()
        };
        let number = |name: &str, below: usize| {
            let value = text(name);
            let number = value.trim().parse().ok().filter(|&number| number < below);
            let expected = || {
                RankError::start(
                    format!("{name} {}", one_line(&value)),
                    format!("expected a number less than {below}"),
                )
            };
            number.ok_or_else(expected)
        };
        let n_ranks = number("WORLD_SIZE", RANKS)?;
        let agent_listens = matches!(text(AGENT_LISTENS).as_str(), "True" | "true" | "1");
        let own = !text(PORT).is_empty();
        let (name, port) = match (own, agent_listens) {
            (true, _) => (PORT.to_owned(), number(PORT, 1 << 16)?),
            (false, false) => ("MASTER_PORT".to_owned(), number("MASTER_PORT", 1 << 16)?),
            (false, true) => (
                "MASTER_PORT + 1 =".to_owned(),
                number("MASTER_PORT", (1 << 16) - 1)? + 1,
            ),
        };
        let run = text(RUN_ID);
        let (secret, leaves_host) = match n_ranks {
            1 => (Secret::random()?, false),
            _ => Trust::of(&variable)?.settle()?,
        };
        Ok(Self {
            secret: secret.of_run(run.trim()),
            leaves_host,
            is_one_host: text(LOCAL_SIZE).trim().parse() == Ok(n_ranks),
            limits: Limits::USUAL,
            rank: number("RANK", n_ranks)?,
            n_ranks,
            local_rank: number("LOCAL_RANK", n_ranks)?,
            master: text("MASTER_ADDR"),
            port: port as u16,
            port_name: name,
        })
    }

    /// An error about the place where ranks find each other.
    pub fn failed(&self, reason: impl ToString) -> RankError {
        let (name, port, master) = (&self.port_name, self.port, one_line(&self.master));
        RankError::start(format!("{name} {port} on {master}"), reason)
    }

    /// The addresses of `MASTER_ADDR`.
    ///
    /// # Errors
    /// [`RankError::Start`] with the resolver's message, and for an address of another host where none may be used.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found = (self.master.as_str(), self.port).to_socket_addrs();
        let wrong = |reason: String| {
            RankError::start(format!("MASTER_ADDR {}", one_line(&self.master)), reason)
        };
        let found: Vec<SocketAddr> = found.map_err(|error| wrong(error.to_string()))?.collect();
        match self.leaves_host || found.iter().all(|one| one.ip().is_loopback()) {
            true => Ok(found),
            false => Err(wrong(Trust::advice())),
        }
    }

    /// From where the others can reach this rank.
    ///
    /// # Errors
    /// Those of [`Launch::addresses`]; a name that is not known yet is none.
    pub fn reach(&self) -> Result<Reach> {
        if self.n_ranks == 1 || (self.leaves_host && self.is_one_host) {
            let loopback = (Ipv4Addr::LOCALHOST, self.port).into();
            return Ok(Reach::Towards(vec![loopback]));
        }
        if !self.leaves_host {
            return self.addresses().map(|_| Reach::Loopback);
        }
        let known = self.addresses();
        Ok(match known {
            Ok(known) if !self.is_own_name(&known) => Reach::Towards(known),
            _ => Reach::Everywhere,
        })
    }

    /// Whether `MASTER_ADDR` is the name of this host that it resolves to its loopback, as Debian does: what others
    /// resolve it to is not known.
    pub fn is_own_name(&self, addresses: &[SocketAddr]) -> bool {
        let names_a_host = self.master != "localhost" && self.master.parse::<IpAddr>().is_err();
        names_a_host && addresses.iter().all(|one| one.ip().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(changes: &[(&str, &str)]) -> Result<Launch> {
        let usual = [
            ("RANK", "1"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node"),
            ("MASTER_PORT", "29500"),
            ("HLX_SECRET", "a secret of some length"),
        ];
        let found = |name: &str| {
            let mut all = changes.iter().chain(&usual);
            all.find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).into())
        };
        Launch::of(found)
    }

    #[test]
    fn the_port_is_the_launchers_unless_its_own_process_listens_there() {
        let port = |changes: &[(&str, &str)]| launch(changes).expect("reads").port;
        assert_eq!(port(&[]), 29500);
        assert_eq!(port(&[(AGENT_LISTENS, "False")]), 29500);
        assert_eq!(port(&[(AGENT_LISTENS, "True")]), 29501);
        assert_eq!(port(&[(AGENT_LISTENS, "True"), (PORT, "7")]), 7);
    }

    #[test]
    fn only_a_name_that_is_known_here_as_the_loopback_may_be_another_address_elsewhere() {
        let local: SocketAddr = "127.0.1.1:1".parse().expect("an address");
        let other: SocketAddr = "10.0.0.1:1".parse().expect("an address");
        for (master, known, expected) in [
            ("node-1", local, true),
            ("node-1", other, false),
            ("node-1.cluster.local", local, true),
            ("localhost", local, false),
            ("127.0.1.1", local, false),
            ("::1", local, false),
        ] {
            let launch = launch(&[("MASTER_ADDR", master)]).expect("reads");
            assert_eq!(launch.is_own_name(&[known]), expected, "{master} {known}");
        }
    }

    #[test]
    fn a_variable_that_is_no_number_is_named() {
        for (name, value) in [
            ("RANK", "x"),
            ("RANK", "4"),
            ("WORLD_SIZE", "0x4"),
            ("LOCAL_RANK", ""),
            ("MASTER_PORT", "65536"),
            ("HLX_PORT", "-1"),
            ("WORLD_SIZE", "99999999"),
        ] {
            let error = launch(&[(name, value)])
                .expect_err("is refused")
                .to_string();
            assert!(
                error.starts_with(&format!("{name} {value}: expected a number less than ")),
                "{error}"
            );
        }
    }
}
