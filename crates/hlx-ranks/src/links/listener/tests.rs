//! Guests of a listener: ranks, strangers, and those who say nothing.

use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Instant;

use super::guest::Stage;
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
            if let Progress::Waits(stage) = guest.stage.advance(&secret) {
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
        // The system lets 128 wait at most.
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
