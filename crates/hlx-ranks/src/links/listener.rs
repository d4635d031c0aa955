//! A port that takes connections, and admits those who prove the secret: ranks and strangers connect alike.

mod guest;

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use self::guest::{Guest, Progress};
use super::hello::Line;
use crate::Secret;

/// The most guests at a time. More wait in the system's queue: among them may be ranks, of which thousands
/// connect at once.
const GUESTS: usize = 256;
/// How long a guest may take for its proof and its first line.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a guest retains its place while others wait: a rank sends its proof as soon as it is connected, and
/// connects again if it was sent away.
const PLACE: Duration = Duration::from_millis(250);

/// What listens, and those who have connected.
pub(crate) struct Listener {
    sockets: Vec<TcpListener>,
    /// The oldest first.
    guests: Vec<Guest>,
    /// Strangers that were refused.
    n_refused: u64,
}

impl Listener {
    /// Listens at a port of all addresses of this host, those of IPv6 and those of IPv4; port 0 is any free
    /// one.
    ///
    /// # Errors
    /// The system's.
    pub fn everywhere(port: u16) -> Result<Self> {
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
            Ok(socket) => {
                let port = socket.local_addr()?.port();
                // Most systems give this socket the connections of IPv4, too, and the port is then taken.
                // Windows does not, nor does Linux where `net.ipv6.bindv6only` is 1.
                let second = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
                Self::new([socket].into_iter().chain(second).collect())
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(error),
            // A system without IPv6.
            Err(_) => Self::new(vec![TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?]),
        }
    }

    /// Listens at those of the addresses that this host has.
    ///
    /// # Errors
    /// The system's: for an address whose port is in use, or if the host has none of them.
    pub fn at(addresses: &[SocketAddr]) -> Result<Self> {
        let mut sockets = Vec::new();
        let mut failure = Error::from(ErrorKind::AddrNotAvailable);
        for (n, address) in addresses.iter().enumerate() {
            // A resolver may name an address twice.
            if addresses[..n].contains(address) {
                continue;
            }
            match TcpListener::bind(address) {
                Ok(socket) => sockets.push(socket),
                Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
                Err(error) => failure = error,
            }
        }
        match sockets.is_empty() {
            true => Err(failure),
            false => Self::new(sockets),
        }
    }

    fn new(sockets: Vec<TcpListener>) -> Result<Self> {
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        Ok(Self {
            sockets,
            guests: Vec::new(),
            n_refused: 0,
        })
    }

    /// The port of the first address.
    ///
    /// # Errors
    /// The system's.
    pub fn port(&self) -> Result<u16> {
        Ok(self.sockets[0].local_addr()?.port())
    }

    /// The addresses that it listens at.
    #[cfg(test)]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.sockets.iter().map(TcpListener::local_addr);
        addresses.filter_map(Result::ok).collect()
    }

    /// How many strangers were refused.
    pub fn n_refused(&self) -> u64 {
        self.n_refused
    }

    /// Takes connections, and returns those whose other side has proved the secret, each with its first line. They
    /// do not block. Does not wait.
    pub fn arrivals(&mut self, secret: &Secret) -> Vec<(String, Line)> {
        self.take_guests();
        let mut arrivals = Vec::new();
        for Guest { from, since, stage } in std::mem::take(&mut self.guests) {
            match stage.advance(secret) {
                Progress::Waits(_) if since.elapsed() > PATIENCE => {
                    self.refuse(from, &format!("it sent no proof within {PATIENCE:?}"));
                }
                Progress::Waits(stage) => self.guests.push(Guest { from, since, stage }),
                Progress::Arrived(line, connection) => arrivals.push((line, *connection)),
                Progress::Gone => {}
                Progress::Stranger(why) => self.refuse(from, &why),
            }
        }
        arrivals
    }

    /// Takes connections while there is room: the oldest guest makes room if it is no rank in a hurry.
    fn take_guests(&mut self) {
        for number in 0..self.sockets.len() {
            loop {
                let is_full = self.guests.len() >= GUESTS;
                if is_full && self.guests[0].since.elapsed() < PLACE {
                    return;
                }
                let Ok((stream, from)) = self.sockets[number].accept() else {
                    break;
                };
                if is_full {
                    let oldest = self.guests.remove(0);
                    self.refuse(oldest.from, "it sent no proof while others waited");
                }
                self.guests.extend(Guest::new(stream, from));
            }
        }
    }

    /// Says once that a stranger was refused: any number of them may come.
    fn refuse(&mut self, from: SocketAddr, why: &str) {
        self.n_refused += 1;
        if self.n_refused == 1 {
            tracing::warn!(
                "a connection from {from} was refused: {why}; of others nothing is said"
            );
        }
    }
}

#[cfg(test)]
mod tests;
