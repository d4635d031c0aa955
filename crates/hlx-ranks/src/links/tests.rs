//! Links of ranks that are threads of one process; a rank that hangs is one that beats no more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::hello::Call;
use super::reach::Reach;
use super::*;
use crate::watch::Watch;

/// A rank as tests have it.
struct Rank {
    links: Arc<Links>,
    watch: Watch,
}

fn listen(n: usize) -> Vec<(Listener, Place)> {
    let listen = |_| Place::listen(&Reach::Everywhere).expect("listens");
    (0..n).map(listen).collect()
}

/// Links `n` ranks on this host.
fn linked(n: usize) -> Vec<Rank> {
    linked_by(n, Place::clone)
}

/// Links `n` ranks whose places others know as `known` has them.
fn linked_by(n: usize, known: impl Fn(&Place) -> Place) -> Vec<Rank> {
    let listening = listen(n);
    let places: Vec<Place> = listening.iter().map(|(_, place)| known(place)).collect();
    let secret = Secret::random().expect("random numbers");
    let connect = |(rank, (listener, _)): (usize, (Listener, Place))| {
        let (places, secret) = (places.clone(), secret.clone());
        std::thread::spawn(move || {
            let links = Arc::new(Links::connect(rank, listener, places, secret).expect("links"));
            let watch = Watch::start(links.clone(), |_| {});
            Rank { links, watch }
        })
    };
    let threads: Vec<_> = listening.into_iter().enumerate().map(connect).collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("a rank"))
        .collect()
}

/// What a rank says of the one that was lost first, once it knows.
fn lost(rank: &Rank) -> String {
    let begun = Instant::now();
    loop {
        if let Some(lost) = rank.links.lost() {
            return lost.to_string();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody is lost");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ranks_are_linked_with_the_first_and_with_those_they_exchange_with() {
    let linked_with = |rank: usize| {
        (0..8)
            .filter(|&other| are_linked(rank, other))
            .collect::<Vec<_>>()
    };
    assert_eq!(linked_with(0), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(linked_with(5), [0, 1, 4, 7]);
    assert_eq!(linked_with(3), [0, 1, 2, 7]);
}

/// As on hosts without IPv4.
#[test]
fn ranks_are_linked_by_ipv6_alone() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return; // A machine without IPv6.
    }
    let mut ranks = linked_by(4, |place| {
        let port = place.addresses[0].port();
        Place::from_line(&format!("six [::1]:{port}")).expect("a place")
    });
    drop(ranks.remove(2));
    for rank in &ranks {
        assert_eq!(lost(rank), "rank 2 on six: its process has ended");
    }
}

/// What listens at a rank's first address takes the connection and says nothing: the next one is tried.
#[test]
fn an_address_that_never_answers_does_not_use_up_the_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
    let silent = silent.local_addr().expect("an address");
    let ranks = linked_by(2, |place| {
        let port = place.addresses[0].port();
        let line = format!("host-{port} {silent} 127.0.0.1:{port}");
        Place::from_line(&line).expect("a place")
    });
    assert!(ranks.iter().all(|rank| rank.links.lost().is_none()));
}

/// Rank 1 is not linked with rank 2: it named the one that gave up first, whose process had then ended.
#[test]
fn all_ranks_name_the_one_that_does_not_come() {
    let listening = listen(4);
    let places: Vec<Place> = listening.iter().map(|(_, place)| place.clone()).collect();
    let secret = Secret::random().expect("random numbers");
    let name_of_lost = |rank, listener| {
        let (places, secret) = (places.clone(), secret.clone());
        match Links::connect_within(Duration::from_secs(1), rank, listener, places, secret) {
            Ok(links) => {
                let links = Arc::new(links);
                let watch = Watch::start(links.clone(), |_| {});
                lost(&Rank { links, watch })
            }
            Err(error) => error.to_string(),
        }
    };
    let said: Vec<String> = std::thread::scope(|scope| {
        let listeners = listening.into_iter().map(|(listener, _)| listener);
        let present = listeners.enumerate().filter(|(rank, _)| *rank != 2);
        let name_of_lost = &name_of_lost;
        let start = |(rank, listener)| scope.spawn(move || name_of_lost(rank, listener));
        let threads: Vec<_> = present.map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("a rank");
        threads.into_iter().map(join).collect()
    });
    let named = format!("rank 2 on {}: ", crate::host_name());
    assert!(said.iter().all(|said| said.starts_with(&named)), "{said:?}");
}

/// Rank 6 has no link with rank 1; all name it nevertheless, and not those that end because of it.
#[test]
fn all_ranks_name_the_one_that_has_ended() {
    let mut ranks = linked(8);
    drop(ranks.remove(6));
    let expected = format!("rank 6 on {}: its process has ended", crate::host_name());
    assert_eq!(lost(&ranks[0]), expected);
    // Those that end next are not what ended the run.
    drop(ranks.remove(0));
    for rank in &ranks {
        assert_eq!(lost(rank), expected, "rank {}", rank.links.rank);
    }
}

#[test]
fn all_ranks_learn_the_line_that_one_fails_with() {
    let mut ranks = linked(4);
    ranks[3].links.fail("the disk\nis full");
    drop(ranks.pop());
    let expected = format!("rank 3 on {}: the disk is full", crate::host_name());
    ranks
        .iter()
        .for_each(|rank| assert_eq!(lost(rank), expected));
}

/// Ranks 2 and 3 give no sign of life: the lowest is named by both others.
#[test]
fn silent_ranks_are_named_by_the_lowest() {
    let mut ranks = linked(4);
    let mut stopped = ranks.split_off(2);
    stopped.iter_mut().for_each(|rank| rank.watch.stop());
    let expected = format!("rank 2 on {}: no sign of life for 10 s", crate::host_name());
    ranks
        .iter()
        .for_each(|rank| assert_eq!(lost(rank), expected));
    assert!(ranks.iter().all(|rank| !rank.links.has_noticed()));
    assert!(ranks[0].links.check().is_err() && ranks[0].links.has_noticed());
}

#[test]
fn ranks_that_leave_are_not_lost() {
    let mut ranks = linked(4);
    ranks.iter().for_each(|rank| rank.links.leave());
    drop(ranks.drain(2..));
    std::thread::sleep(Duration::from_millis(700));
    assert!(ranks.iter().all(|rank| rank.links.lost().is_none()));
}

/// Whoever connects without the secret, with a taken place, or with anything else is sent away; the ranks
/// continue.
#[test]
fn strangers_change_nothing() {
    let ranks = linked(2);
    let address = ranks[0].links.places[0].addresses[0];
    let long = vec![b'x'; 100_000];
    let lines: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"hlx-rank-1 0123 1 0 Life\n",
        b"HLXRANK2 and then something else, as long as a proof is.",
        &[0xff; 64],
        &long,
        b"\n\n",
    ];
    for line in lines {
        let mut stranger = TcpStream::connect(address).expect("connects");
        let _ = stranger.write_all(line);
        let mut answer = Vec::new();
        stranger
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        // The end of the connection, or its reset; a time that has passed would be another error.
        if let Err(error) = stranger.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert_eq!(answer, b"");
    }
    assert!(ranks.iter().all(|rank| rank.links.lost().is_none()));
}

/// A second process that knows the secret and says that it is a rank which is linked, or one that does not exist.
#[test]
fn a_place_that_is_taken_or_is_none_is_not_given_away() {
    let ranks = linked(2);
    let address = ranks[0].links.places[0].addresses[0];
    for line in ["Life 1 0", "Data 7 0", "Life 1 1"] {
        let call = Call {
            secret: &ranks[0].links.secret,
            line,
            limits: (Duration::from_secs(5), Duration::from_secs(5)),
            until: Instant::now() + Duration::from_secs(2),
        };
        assert!(call.at(address, || true).is_err(), "{line}");
    }
    assert!(ranks.iter().all(|rank| rank.links.lost().is_none()));
}
