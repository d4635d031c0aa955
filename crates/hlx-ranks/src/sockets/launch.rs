//! What the launcher says by its variables: which rank this is, and where all of them find each other.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::{RankError, Result};

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

/// What the launcher has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub rank: usize,
    pub n_ranks: usize,
    pub local_rank: usize,
    pub master: String,
    pub port: u16,
    /// The name of the variable that the port is of, for messages.
    port_name: String,
    /// The name of the run, which another at the same port does not have.
    pub run: String,
}

impl Launch {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`RankError::Start`] with the variable and its value.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let text = |name: &str| variable(name).unwrap_or_default();
        let number = |name: &str, below: usize| {
            let value = text(name);
            let number = value.trim().parse().ok().filter(|&number| number < below);
            let expected = || {
                RankError::start(
                    format!("{name} {value}"),
                    format!("expected a number less than {below}"),
                )
            };
            number.ok_or_else(expected)
        };
        let n_ranks = number("WORLD_SIZE", RANKS)?;
        let agent_listens = matches!(text(AGENT_LISTENS).as_str(), "True" | "true" | "1");
        let own = variable(PORT).is_some_and(|port| !port.is_empty());
        let (name, port) = match (own, agent_listens) {
            (true, _) => (PORT.to_owned(), number(PORT, 1 << 16)?),
            (false, false) => ("MASTER_PORT".to_owned(), number("MASTER_PORT", 1 << 16)?),
            (false, true) => (
                "MASTER_PORT + 1 =".to_owned(),
                number("MASTER_PORT", (1 << 16) - 1)? + 1,
            ),
        };
        Ok(Self {
            rank: number("RANK", n_ranks)?,
            n_ranks,
            local_rank: number("LOCAL_RANK", n_ranks)?,
            master: text("MASTER_ADDR"),
            port: port as u16,
            port_name: name,
            run: variable(RUN_ID).map_or("-".to_owned(), |run| run.split_whitespace().collect()),
        })
    }

    /// An error about the place where ranks find each other.
    pub fn failed(&self, reason: impl ToString) -> RankError {
        let (name, port, master) = (&self.port_name, self.port, &self.master);
        RankError::start(format!("{name} {port} on {master}"), reason)
    }

    /// The addresses of `MASTER_ADDR`.
    ///
    /// # Errors
    /// [`RankError::Start`] with the resolver's message.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found = (self.master.as_str(), self.port).to_socket_addrs();
        let failed = |error| RankError::start(format!("MASTER_ADDR {}", self.master), error);
        Ok(found.map_err(failed)?.collect())
    }

    /// Whether `MASTER_ADDR` is a host's name. What the host itself takes it for says little of what others
    /// do: Debian resolves it to 127.0.1.1 there.
    pub fn names_a_host(&self) -> bool {
        self.master != "localhost" && self.master.parse::<IpAddr>().is_err()
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
        ];
        let found = |name: &str| {
            let mut all = changes.iter().chain(&usual);
            all.find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
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
    fn a_name_is_one_of_a_host_unless_it_is_an_address() {
        let names_a_host =
            |master| launch(&[("MASTER_ADDR", master)]).map(|one| one.names_a_host());
        for (master, expected) in [
            ("node-1", true),
            ("node-1.cluster.local", true),
            ("localhost", false),
            ("10.0.0.1", false),
            ("fd00::1", false),
        ] {
            assert_eq!(names_a_host(master), Ok(expected), "{master}");
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
