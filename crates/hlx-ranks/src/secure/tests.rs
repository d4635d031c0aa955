//! Handshakes and records between two ends in one process.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;

/// Both ends of a connection by TCP that do not block.
pub(crate) fn lines() -> (Channel<TcpStream>, Channel<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address");
    let ours = TcpStream::connect(address).expect("connects");
    let (theirs, _) = listener.accept().expect("a connection");
    for stream in [&ours, &theirs] {
        stream.set_nonblocking(true).expect("set");
        stream.set_nodelay(true).expect("set");
    }
    let [our_keys, their_keys] = keys();
    (
        Channel::new(ours, our_keys),
        Channel::new(theirs, their_keys),
    )
}

fn secret() -> Secret {
    Secret::random().expect("random numbers")
}

fn keys() -> [TransportState; 2] {
    let secret = secret();
    let (caller, first) = Caller::new(&secret).expect("random numbers");
    let (second, theirs) = answer(&secret, &first).expect("answers");
    [caller.finish(&second).expect("finishes"), theirs]
}

/// A wire of this process, from which each read takes a few bytes.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<VecDeque<u8>>>);

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        let mut bytes = self.0.lock().expect("a lock");
        let n = into.len().min(bytes.len()).min(7);
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into.iter_mut()
            .zip(bytes.drain(..n))
            .for_each(|(to, from)| *to = from);
        Ok(n)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let n = bytes.len().min(5);
        self.0.lock().expect("a lock").extend(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn only_who_knows_the_secret_finishes_a_handshake() {
    let (ours, theirs) = (secret(), secret());
    let (caller, first) = Caller::new(&ours).expect("random numbers");
    assert!(answer(&theirs, &first).is_err());
    let (second, _) = answer(&ours, &first).expect("answers");
    // A record of an earlier connection with the same secret.
    let (again, _) = Caller::new(&ours).expect("random numbers");
    assert!(again.finish(&second).is_err());
    assert!(caller.finish(&second).is_ok());
}

/// The bytes of a version before, of another program, and with any bit changed.
#[test]
fn a_handshake_with_any_bit_changed_is_refused() {
    let secret = secret();
    let (_, first) = Caller::new(&secret).expect("random numbers");
    for bit in 0..FIRST * 8 {
        let mut wrong = first;
        wrong[bit / 8] ^= 1 << (bit % 8);
        // The highest bit of a public key is not used, but sealed.
        assert!(answer(&secret, &wrong).is_err(), "{bit}");
    }
    for bit in 0..SECOND * 8 {
        let (caller, first) = Caller::new(&secret).expect("random numbers");
        let (mut wrong, _) = answer(&secret, &first).expect("answers");
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(caller.finish(&wrong).is_err(), "{bit}");
    }
}

#[test]
fn bytes_of_any_length_come_as_they_were_written() {
    let [ours, theirs] = keys();
    let wire = Wire::default();
    let mut out = Channel::new(wire.clone(), ours);
    let mut into = Channel::new(wire, theirs);
    for n in [1, 2, 15, 16, 17, 65_518, 65_519, 65_520, 200_000] {
        let bytes: Vec<u8> = (0..n).map(|at| (at * 31 + at / 251) as u8).collect();
        out.write_all(&bytes).expect("writes");
        assert!(out.is_sent());
        let mut found = vec![0; n];
        into.read_exact(&mut found).expect("reads");
        assert!(found == bytes, "{n}");
        let early = into.read(&mut [0]).expect_err("is empty");
        assert_eq!(early.kind(), ErrorKind::WouldBlock);
    }
}

/// A record that was changed, left out or repeated, and one that goes back to who has sent it.
#[test]
fn records_that_are_not_the_next_are_refused() {
    let sealed = |changes: fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>| {
        let [ours, theirs] = keys();
        let wire = Wire::default();
        let mut out = Channel::new(wire.clone(), ours);
        let records = ["one", "two"].map(|text| {
            out.write_all(text.as_bytes()).expect("writes");
            wire.0.lock().expect("a lock").drain(..).collect()
        });
        let bytes = changes(records.to_vec()).concat();
        wire.0.lock().expect("a lock").extend(bytes);
        let mut into = Channel::new(wire, theirs);
        [(); 2].map(|()| into.line().map_err(|error| error.kind()))
    };
    let broken = Err(ErrorKind::InvalidData);
    let one = || Ok("one".to_owned());
    assert_eq!(sealed(|records| records), [one(), Ok("two".to_owned())]);
    assert_eq!(
        sealed(|mut records| {
            records.remove(0);
            records
        })[0],
        broken
    );
    assert_eq!(
        sealed(|records| vec![records[0].clone(); 2]),
        [one(), broken.clone()]
    );
    let changed = sealed(|mut records| {
        records[1][4] ^= 1;
        records
    });
    assert_eq!(changed, [one(), broken.clone()]);
    let [ours, _] = keys();
    let wire = Wire::default();
    let mut alone = Channel::new(wire, ours);
    alone.write_all(b"to myself").expect("writes");
    assert_eq!(alone.line().map_err(|error| error.kind()), broken);
}

/// A length of 65,535 for a line of life signs, and lengths shorter than a seal.
#[test]
fn records_longer_than_their_kind_are_refused_before_they_come() {
    for (length, limit) in [(65_535_u16, 100), (117, 100), (0, 100), (15, 100)] {
        let [_, theirs] = keys();
        let wire = Wire::default();
        wire.0.lock().expect("a lock").extend(length.to_le_bytes());
        let mut into = Channel::new(wire, theirs).with_limit(limit);
        let found = into.line().map_err(|error| error.kind());
        assert_eq!(found, Err(ErrorKind::InvalidData), "{length}");
    }
    let [_, theirs] = keys();
    let wire = Wire::default();
    wire.0.lock().expect("a lock").extend(116_u16.to_le_bytes());
    let mut into = Channel::new(wire, theirs).with_limit(100);
    let found = into.line().map_err(|error| error.kind());
    assert_eq!(found, Err(ErrorKind::WouldBlock));
}
