//! A port that takes connections and reads the first line of each: ranks and strangers alike.

use std::io::{Error, ErrorKind, Read, Result};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::hello::LINE;

/// The most guests at a time. More wait in the system's queue: among them may be ranks, of which thousands
/// connect at once.
const GUESTS: usize = 256;
/// How long a guest may take for its first line.
const PATIENCE: Duration = Duration::from_secs(5);

/// What listens, and those who have connected.
pub(crate) struct Listener {
    sockets: Vec<TcpListener>,
    guests: Vec<Guest>,
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
        let guests = Vec::new();
        Ok(Self { sockets, guests })
    }

    /// The port of the first address.
    ///
    /// # Errors
    /// The system's.
    pub fn port(&self) -> Result<u16> {
        Ok(self.sockets[0].local_addr()?.port())
    }

    /// Takes connections, and returns the first lines that are whole, each with its connection, which does
    /// not block. Does not wait.
    pub fn first_lines(&mut self) -> Vec<(String, TcpStream)> {
        for socket in &self.sockets {
            while self.guests.len() < GUESTS {
                let Ok((stream, _)) = socket.accept() else {
                    break;
                };
                self.guests.extend(Guest::new(stream));
            }
        }
        let mut lines = Vec::new();
        for mut guest in std::mem::take(&mut self.guests) {
            match guest.line() {
                Ok(None) => self.guests.push(guest),
                Ok(Some(line)) => lines.push((line, guest.stream)),
                Err(_) => {}
            }
        }
        lines
    }
}

/// Somebody who has connected, and whose first line is not whole yet.
struct Guest {
    stream: TcpStream,
    bytes: Vec<u8>,
    since: Instant,
}

impl Guest {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            bytes: Vec::new(),
            since: Instant::now(),
        })
    }

    /// The first line once it is whole; an error ends the guest. Bytes behind the line are an error:
    /// a rank waits for its answer. So is the end of the connection: a rank that has given up connects
    /// again, and must not find its place taken.
    fn line(&mut self) -> Result<Option<String>> {
        let mut part = [0; 512];
        match self.stream.read(&mut part) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.bytes.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let stranger = || Error::from(ErrorKind::InvalidData);
        match self.bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) if end + 1 == self.bytes.len() => {
                if self.stream.peek(&mut [0]).is_ok() {
                    return Err(stranger());
                }
                self.bytes.pop();
                let line = String::from_utf8(std::mem::take(&mut self.bytes));
                line.map(Some).map_err(|_| stranger())
            }
            Some(_) => Err(stranger()),
            None if self.bytes.len() > LINE || self.since.elapsed() > PATIENCE => Err(stranger()),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::IpAddr;

    use super::*;

    /// The first line that comes within 2 s.
    fn first_line(listener: &mut Listener) -> Option<String> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if let Some((line, _)) = listener.first_lines().into_iter().next() {
                return Some(line);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    #[test]
    fn connections_of_both_kinds_are_taken() {
        let mut listener = Listener::everywhere(0).expect("listens");
        let port = listener.port().expect("a port");
        let loopbacks = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ];
        let is_here = |address: &IpAddr| TcpListener::bind((*address, 0)).is_ok();
        for address in loopbacks.into_iter().filter(is_here) {
            let mut stream = TcpStream::connect((address, port)).expect("connects");
            stream.write_all(b"hello\n").expect("writes");
            assert_eq!(
                first_line(&mut listener).as_deref(),
                Some("hello"),
                "{address}"
            );
        }
        let again = Listener::everywhere(port).map(drop).expect_err("is taken");
        assert_eq!(again.kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn an_address_named_twice_is_one() {
        let free = TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = free.local_addr().expect("an address");
        let taken = Listener::at(&[address]).map(drop).expect_err("is taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        drop(free);
        let elsewhere: SocketAddr = "192.0.2.1:0".parse().expect("an address");
        let listener = Listener::at(&[elsewhere, address, address]).expect("listens");
        assert_eq!(listener.sockets.len(), 1);
        assert!(Listener::at(&[elsewhere]).is_err());
    }

    /// A rank that gave up waiting for its answer took the place of its own next connection.
    #[test]
    fn a_guest_that_has_gone_has_no_line() {
        let mut listener = Listener::everywhere(0).expect("listens");
        let address = (Ipv4Addr::LOCALHOST, listener.port().expect("a port"));
        let mut gone = TcpStream::connect(address).expect("connects");
        gone.write_all(b"gone\n").expect("writes");
        drop(gone);
        std::thread::sleep(Duration::from_millis(50));
        let mut here = TcpStream::connect(address).expect("connects");
        here.write_all(b"here\n").expect("writes");
        assert_eq!(first_line(&mut listener).as_deref(), Some("here"));
    }

    /// Guests beyond the limit were sent away, ranks among them.
    #[test]
    fn guests_beyond_the_limit_wait() {
        let mut listener = Listener::everywhere(0).expect("listens");
        let port = listener.port().expect("a port");
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
        let mut silent = Vec::new();
        while listener.guests.len() < GUESTS {
            // The system keeps 128 waiting at most.
            if silent.len() < GUESTS {
                silent.push(connect());
            }
            assert!(listener.first_lines().is_empty());
        }
        let mut last = connect();
        last.write_all(b"last\n").expect("writes");
        std::thread::sleep(Duration::from_millis(20));
        assert!(listener.first_lines().is_empty());
        silent.pop();
        assert_eq!(first_line(&mut listener).as_deref(), Some("last"));
    }
}
