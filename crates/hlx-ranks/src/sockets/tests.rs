//! Ranks that are threads: each reads variables of its own.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{TcpListener, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::*;
use crate::testing::free_port;
use crate::{Group, host_name};

type Variables = BTreeMap<&'static str, String>;

fn variables(rank: usize, n: usize, port: u16) -> Variables {
    Variables::from([
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", n.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
        ("MASTER_PORT", port.to_string()),
    ])
}

fn start(variables: &Variables) -> Result<Arc<Sockets>> {
    Sockets::launched(Launch::of(|name| variables.get(name).cloned())?, |_| {}).map(Arc::new)
}

/// Calls a body as each of the ranks that start.
fn each<R: Send>(all: &[Variables], body: impl Fn(Result<Arc<Sockets>>) -> R + Sync) -> Vec<R> {
    let body = &body;
    std::thread::scope(|scope| {
        let rank = |variables| scope.spawn(move || body(start(variables)));
        let threads: Vec<_> = all.iter().map(rank).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| thread.join().expect("a rank");
        threads.into_iter().map(join).collect()
    })
}

fn ranks<R: Send>(n: usize, body: impl Fn(Arc<Sockets>) -> R + Sync) -> Vec<R> {
    let port = free_port().expect("a free port");
    let all: Vec<Variables> = (0..n).map(|rank| variables(rank, n, port)).collect();
    each(&all, |sockets| body(sockets.expect("starts")))
}

#[test]
fn all_ranks_gather_the_same() {
    for n in [2, 3, 8] {
        let all = ranks(n, |sockets| {
            let group = Group::new(sockets);
            assert!(!group.carries_data() && group.local_rank() == Some(group.rank()));
            let mine = vec![group.rank() as u8; 3 * group.rank()];
            let all = group.gather(&mine).expect("gathers");
            group.leave().expect("leaves");
            all
        });
        let expected: Vec<Vec<u8>> = (0..n).map(|rank| vec![rank as u8; 3 * rank]).collect();
        assert!(all.iter().all(|found| *found == expected));
    }
}

/// As on hosts without IPv4.
#[test]
fn ranks_find_each_other_by_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // A machine without IPv6.
    }
    let port = free_port().expect("a free port");
    let mut all = [variables(0, 2, port), variables(1, 2, port)];
    for variables in &mut all {
        variables.insert("MASTER_ADDR", "::1".to_owned());
    }
    let gathered = each(&all, |sockets| {
        let group = Group::new(sockets.expect("starts"));
        let all = group.gather(&[group.rank() as u8]).expect("gathers");
        group.leave().expect("leaves");
        all
    });
    assert_eq!(gathered, vec![vec![vec![0], vec![1]]; 2]);
}

/// Rank 0 listened at what its own host takes its name for, on Debian an address of the loopback.
#[test]
fn a_first_rank_that_is_named_is_reached_at_all_its_addresses() {
    if (host_name(), 0).to_socket_addrs().is_err() {
        return; // A machine that does not know its own name.
    }
    let port = free_port().expect("a free port");
    let mut all = [variables(0, 2, port), variables(1, 2, port)];
    let (_, place) = Place::listen().expect("listens");
    let outside = place.addresses[0].ip().to_string();
    all[0].insert("MASTER_ADDR", host_name());
    all[1].insert("MASTER_ADDR", outside);
    let started = each(&all, |sockets| {
        let group = Group::new(sockets.expect("starts"));
        group.leave().expect("leaves");
    });
    assert_eq!(started.len(), 2);
}

/// Messages larger than what a connection holds, of unequal lengths, both ways at once.
#[test]
fn long_messages_arrive_whole() {
    let byte = |rank: usize, at: usize| (at * 31 + rank * 7 + at / 4096) as u8;
    let lengths = [20_000_001, 3_300_000];
    ranks(2, |sockets| {
        let rank = sockets.rank();
        let out: Vec<u8> = (0..lengths[rank]).map(|at| byte(rank, at)).collect();
        let mut into = vec![0; lengths[1 - rank]];
        sockets.swap(1 - rank, &out, &mut into).expect("swaps");
        let wrong = into
            .iter()
            .enumerate()
            .find(|(at, found)| **found != byte(1 - rank, *at));
        assert_eq!(wrong, None);
        Group::new(sockets).leave().expect("leaves");
    });
}

#[test]
fn messages_of_other_lengths_are_refused() {
    let errors = ranks(2, |sockets| {
        let mut into = vec![0; 5];
        let error = sockets
            .swap(1 - sockets.rank(), &[1; 4], &mut into)
            .expect_err("differs");
        std::thread::sleep(Duration::from_millis(300));
        error.to_string()
    });
    let expected = format!(
        "rank 1 on {}: a message of 4 bytes, expected 5",
        host_name()
    );
    assert_eq!(errors[0], expected);
}

#[test]
fn a_rank_that_is_gone_or_fails_is_named_by_all() {
    for (line, reason) in [
        (None, "its process has ended"),
        (Some("no memory"), "no memory"),
    ] {
        let found = ranks(4, |sockets| {
            let group = Group::new(sockets.clone());
            group.barrier().expect("all are there");
            if group.rank() == 2 {
                line.inspect(|line| group.fail(line));
                return None;
            }
            let error = group.barrier().expect_err("one is lost");
            assert_eq!(group.lost(), Some(error.clone()));
            Some(error.to_string())
        });
        let expected = format!("rank 2 on {}: {reason}", host_name());
        for rank in [0, 1, 3] {
            assert_eq!(found[rank].as_ref(), Some(&expected), "{rank}");
        }
    }
}

#[test]
fn what_ranks_cannot_start_with_is_said_by_all() {
    let port = free_port().expect("a free port");
    let mut all = [variables(0, 2, port), variables(1, 2, port)];
    all[1].insert("WORLD_SIZE", "3".to_owned());
    let said = each(&all, |sockets| sockets.err().map(|error| error.to_string()));
    let host = host_name();
    let expected = format!(
        "MASTER_PORT {port} on 127.0.0.1: rank 1 on {host}: WORLD_SIZE is 3 there and 2 on rank 0"
    );
    assert_eq!(said, vec![Some(expected); 2]);
    let port = free_port().expect("a free port");
    let all = [(0, 3), (1, 3), (1, 3)].map(|(rank, n)| variables(rank, n, port));
    let said = each(&all, |sockets| sockets.err().map(|error| error.to_string()));
    let expected = format!("rank 1 on {host}: another process has this RANK");
    let is_it = |said: &Option<String>| said.as_ref().is_some_and(|said| said.ends_with(&expected));
    assert!(said.iter().all(is_it), "{said:?}");
}

/// A port in use: rank 0 says so, and the others do not wait for ever for what listens there.
#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = taken.local_addr().expect("an address").port();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = taken.accept().expect("a guest");
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"220 ready\r\n");
    });
    let begun = Instant::now();
    let said = each(&[variables(0, 2, port), variables(1, 2, port)], |sockets| {
        sockets
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    });
    stranger.join().expect("ends");
    let name = format!("MASTER_PORT {port} on 127.0.0.1:");
    assert!(said[0].starts_with(&format!("{name} in use")), "{said:?}");
    assert!(
        said[1].starts_with(&format!("{name} what listens there is not rank 0")),
        "{said:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Strangers connect to rank 0 while it waits; one of another run comes, too. The ranks start all the same.
#[test]
fn strangers_do_not_disturb_the_start() {
    let port = free_port().expect("a free port");
    let all = [variables(0, 2, port), variables(1, 2, port)];
    let done = std::thread::scope(|scope| {
        let first = scope.spawn(|| start(&all[0]));
        let connect = || loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return stream;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let lines: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\n\r\n",
            &[0xff; 9000],
            b"hlx-meet-1 other 2 1 host 1.2.3.4:5\n",
            b"hlx-meet-1 - 2 1 host nowhere\n",
        ];
        for line in lines {
            let mut stranger = connect();
            let _ = stranger.write_all(line);
            stranger
                .set_read_timeout(Some(Duration::from_secs(20)))
                .expect("set");
            let answer = stranger.read(&mut [0; 16]);
            assert!(!answer.is_ok_and(|n| n > 0), "a stranger has an answer");
        }
        let _silent = connect();
        // Both stay until both have started.
        let both = [start(&all[1]), first.join().expect("a rank")];
        both.map(|started| started.map(drop))
    });
    assert_eq!(done, [Ok(()), Ok(())]);
}
