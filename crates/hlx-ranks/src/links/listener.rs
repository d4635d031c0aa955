//! A port that takes connections, and admits those who prove the secret: ranks and strangers connect alike.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::hello::{FIRST_LINE, Line};
use crate::Secret;
use crate::secure::{Channel, FIRST, MAGIC, answer, is_early};

/// The most guests at a time. More wait in the system's queue: among them may be ranks, of which thousands
/// connect at once.
const GUESTS: usize = 256;
/// How long a guest may take for its proof and its first line.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a guest keeps its place while others wait: a rank sends its proof as soon as it is connected, and
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
                Step::Waits(_) if since.elapsed() > PATIENCE => {
                    self.refuse(from, &format!("it sent no proof within {PATIENCE:?}"));
                }
                Step::Waits(stage) => self.guests.push(Guest { from, since, stage }),
                Step::Arrived(line, connection) => arrivals.push((line, connection)),
                Step::Gone => {}
                Step::Stranger(why) => self.refuse(from, &why),
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

/// Somebody who has connected.
struct Guest {
    from: SocketAddr,
    since: Instant,
    stage: Stage,
}

/// How far a guest is.
enum Stage {
    /// It has sent a part of its first bytes.
    Unknown(TcpStream, Vec<u8>),
    /// Its first bytes, which may be a record of those of another, were sealed with the secret.
    Sealed(Line),
}

/// What a guest has done.
enum Step {
    Waits(Stage),
    /// It has proved the secret, and said its first line.
    Arrived(String, Line),
    Gone,
    Stranger(String),
}

impl Guest {
    fn new(stream: TcpStream, from: SocketAddr) -> Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            from,
            since: Instant::now(),
            stage: Stage::Unknown(stream, Vec::with_capacity(FIRST)),
        })
    }
}

impl Stage {
    /// Reads what has come. Does not wait.
    fn advance(self, secret: &Secret) -> Step {
        match self {
            Self::Unknown(stream, bytes) => read_first(stream, bytes, secret),
            Self::Sealed(line) => read_line(line),
        }
    }
}

/// Reads the first bytes, and answers once they are whole.
fn read_first(mut stream: TcpStream, mut bytes: Vec<u8>, secret: &Secret) -> Step {
    let mut part = [0; FIRST];
    match stream.read(&mut part[bytes.len()..]) {
        Ok(0) => return Step::Gone,
        Ok(n) => {
            let start = bytes.len();
            bytes.extend_from_slice(&part[start..start + n]);
        }
        Err(error) if is_early(&error) => {}
        Err(_) => return Step::Gone,
    }
    let n = bytes.len().min(MAGIC.len());
    if bytes[..n] != MAGIC[..n] {
        let bytes = bytes.escape_ascii();
        return Step::Stranger(format!("it begins with \"{bytes}\", which no rank sends"));
    }
    let Ok(first) = <&[u8; FIRST]>::try_from(&bytes[..]) else {
        return Step::Waits(Stage::Unknown(stream, bytes));
    };
    let Ok((bytes, keys)) = answer(secret, first) else {
        return Step::Stranger("it has another secret than this run, or none".to_owned());
    };
    // A new connection takes so few bytes at once.
    match stream.write(&bytes) {
        Ok(n) if n == bytes.len() => read_line(Channel::new(stream, keys).with_limit(FIRST_LINE)),
        _ => Step::Gone,
    }
}

/// Reads the first line. Bytes behind it are a stranger's: a rank waits for its answer. At the end of the
/// connection the guest is gone: a rank that has given up connects again, and must not find its place taken.
fn read_line(mut connection: Line) -> Step {
    let line = match connection.line() {
        Ok(line) => line,
        Err(error) if is_early(&error) => return Step::Waits(Stage::Sealed(connection)),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return Step::Stranger("it repeats what a rank of this run has sent".to_owned());
        }
        Err(_) => return Step::Gone,
    };
    match connection.stream().peek(&mut [0]) {
        Err(error) if is_early(&error) => Step::Arrived(line, connection),
        _ => Step::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::thread::JoinHandle;

    use super::*;
    use crate::secure::call;

    fn secret() -> Secret {
        Secret::random().expect("random numbers")
    }

    /// The first line that comes within a time.
    fn first_line(listener: &mut Listener, secret: &Secret, limit: Duration) -> Option<String> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some((line, _)) = listener.arrivals(secret).into_iter().next() {
                return Some(line);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Says a line at an address, on another thread, and does not wait for an answer.
    fn says(address: SocketAddr, secret: &Secret, line: &'static str) -> JoinHandle<Result<Line>> {
        let secret = secret.clone();
        std::thread::spawn(move || {
            let stream = TcpStream::connect(address)?;
            let mut line_of = call(stream, &secret, || Ok(()))?;
            line_of.write_all(line.as_bytes())?;
            Ok(line_of)
        })
    }

    const SOON: Duration = Duration::from_secs(2);

    fn listens() -> (Listener, SocketAddr, Secret) {
        let listener = Listener::at(&[(Ipv4Addr::LOCALHOST, 0).into()]).expect("listens");
        let port = listener.port().expect("a port");
        (listener, (Ipv4Addr::LOCALHOST, port).into(), secret())
    }

    #[test]
    fn connections_of_both_kinds_are_taken() {
        let mut listener = Listener::everywhere(0).expect("listens");
        let (port, secret) = (listener.port().expect("a port"), secret());
        let loopbacks = [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ];
        let is_here = |address: &IpAddr| TcpListener::bind((*address, 0)).is_ok();
        for address in loopbacks.into_iter().filter(is_here) {
            let _guest = says((address, port).into(), &secret, "hello");
            let line = first_line(&mut listener, &secret, SOON);
            assert_eq!(line.as_deref(), Some("hello"), "{address}");
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
        let (mut listener, address, secret) = listens();
        let gone = says(address, &secret, "gone");
        while !gone.is_finished() {
            // The proof is answered; the line is not read yet.
            listener.take_guests();
            for guest in std::mem::take(&mut listener.guests) {
                let Stage::Unknown(..) = guest.stage else {
                    listener.guests.push(guest);
                    continue;
                };
                let (from, since) = (guest.from, guest.since);
                if let Step::Waits(stage) = guest.stage.advance(&secret) {
                    listener.guests.push(Guest { from, since, stage });
                }
            }
        }
        drop(gone.join().expect("ends").expect("connects"));
        std::thread::sleep(Duration::from_millis(50));
        let _here = says(address, &secret, "here");
        let line = first_line(&mut listener, &secret, SOON);
        assert_eq!(line.as_deref(), Some("here"));
    }

    /// Silent strangers took all places for 5 s at a time, while ranks waited.
    #[test]
    fn strangers_who_say_nothing_do_not_keep_a_rank_out() {
        let (mut listener, address, secret) = listens();
        let mut silent = Vec::new();
        while listener.guests.len() < GUESTS {
            // The system keeps 128 waiting at most.
            if silent.len() < GUESTS {
                silent.push(TcpStream::connect(address).expect("connects"));
            }
            assert!(listener.arrivals(&secret).is_empty());
        }
        for _ in 0..20 {
            silent.push(TcpStream::connect(address).expect("connects"));
        }
        let begun = Instant::now();
        let _rank = says(address, &secret, "a rank");
        let line = first_line(&mut listener, &secret, PATIENCE);
        assert_eq!(line.as_deref(), Some("a rank"));
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
        assert!(listener.guests.len() <= GUESTS && listener.n_refused() > 0);
    }

    /// The first bytes of a rank that were recorded were enough to be one.
    #[test]
    fn what_was_recorded_of_a_rank_admits_nobody() {
        let (mut listener, address, secret) = listens();
        let (_, first) = crate::secure::Caller::new(&secret).expect("random numbers");
        let mut thief = TcpStream::connect(address).expect("connects");
        let mut recorded = [&first[..], &[30, 0]].concat();
        recorded.extend([7; 30]);
        thief.write_all(&recorded).expect("writes");
        let line = first_line(&mut listener, &secret, Duration::from_millis(200));
        assert_eq!((line, listener.guests.len()), (None, 0));
        assert_eq!(listener.n_refused(), 1);
    }

    /// Each has sent what it had, and then nothing.
    #[test]
    fn parts_of_a_proof_are_not_waited_for_and_wrong_ones_end_at_once() {
        let (mut listener, address, secret) = listens();
        let (_, first) = crate::secure::Caller::new(&secret).expect("random numbers");
        let other = Secret::random().expect("random numbers");
        let (_, of_another) = crate::secure::Caller::new(&other).expect("random numbers");
        let mut guests = Vec::new();
        for bytes in [
            &b"hlx-meet-1 - 4 2 host 1.2.3.4:5\n"[..],
            b"H\n",
            &of_another,
            &first[..30],
        ] {
            let mut guest = TcpStream::connect(address).expect("connects");
            guest.write_all(bytes).expect("writes");
            guests.push(guest);
        }
        drop(TcpStream::connect(address).expect("connects"));
        assert_eq!(
            first_line(&mut listener, &secret, Duration::from_millis(200)),
            None
        );
        assert_eq!((listener.n_refused(), listener.guests.len()), (3, 1));
        listener.guests[0].since -= PATIENCE;
        listener.arrivals(&secret);
        assert_eq!((listener.n_refused(), listener.guests.len()), (4, 0));
    }
}
