//! Ranks that are threads: each reads variables of its own.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::launch::Limits;
use super::*;
use crate::links::reach::Reach;
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

fn launch(variables: &Variables) -> Result<Launch> {
    Launch::of(|name| variables.get(name).map(Into::into))
}

fn start(variables: &Variables) -> Result<Arc<Sockets>> {
    Sockets::launched(launch(variables)?, |_| {}).map(Arc::new)
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
    let (_, place) = Place::listen(&Reach::Everywhere).expect("listens");
    let outside = place.addresses[0].ip().to_string();
    for variables in &mut all {
        variables.insert("HLX_SECRET", "a secret of some length".to_owned());
    }
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
                // The others may still be reading the last messages of the barrier.
                std::thread::sleep(Duration::from_millis(300));
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

/// Connects to rank 0, which may listen a little later.
fn connect(port: u16) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Strangers connect to rank 0 while it waits: who said `hlx-meet-1 - N R` was admitted as rank R and given the
/// run's token, and one line with another `WORLD_SIZE` ended the start. The ranks start all the same.
#[test]
fn strangers_do_not_disturb_the_start() {
    let port = free_port().expect("a free port");
    let all = [variables(0, 2, port), variables(1, 2, port)];
    let done = std::thread::scope(|scope| {
        let first = scope.spawn(|| start(&all[0]));
        let other = crate::Secret::random().expect("random numbers");
        let (_, of_another) = crate::secure::Caller::new(&other).expect("random numbers");
        let lines: [&[u8]; 7] = [
            b"GET / HTTP/1.1\r\n\r\n",
            &[0xff; 9000],
            b"hlx-meet-1 - 2 1 host 1.2.3.4:5\n",
            b"hlx-meet-1 - 3 1 host 1.2.3.4:5\n",
            b"hlx-meet-1 - 2 0 host 1.2.3.4:5\n",
            &of_another,
            &[&of_another[..], &[40; 42]].concat(),
        ];
        for line in lines {
            let mut stranger = connect(port);
            let _ = stranger.write_all(line);
            stranger
                .set_read_timeout(Some(Duration::from_secs(20)))
                .expect("set");
            let answer = stranger.read(&mut [0; 16]);
            assert!(!answer.is_ok_and(|n| n > 0), "a stranger has an answer");
        }
        let _silent: Vec<TcpStream> = (0..50).map(|_| connect(port)).collect();
        drop(connect(port));
        // Both stay until both have started.
        let both = [start(&all[1]), first.join().expect("a rank")];
        both.map(|started| started.map(drop))
    });
    assert_eq!(done, [Ok(()), Ok(())]);
}

/// Sixteen bytes on a connection for data ended rank 0: a length of 2^63 was allocated.
#[test]
fn a_length_that_no_message_has_is_an_error_of_the_rank_that_says_it() {
    let errors = ranks(2, |sockets| {
        let group = Group::new(sockets.clone());
        if group.is_first() {
            return group.gather(&[1; 3]).err().map(|error| error.to_string());
        }
        let mut length = [0; 8];
        let claimed = (1_u64 << 63).to_le_bytes();
        sockets.swap(0, &claimed, &mut length).expect("swaps");
        None
    });
    let expected = format!(
        "rank 1 on {}: a message of {} bytes, expected at most",
        host_name(),
        1_u64 << 63
    );
    let said = errors[0].as_ref().expect("is refused");
    assert!(said.starts_with(&expected), "{said}");
}

/// Starts with short limits.
fn start_soon(variables: &Variables) -> Result<Arc<Sockets>> {
    let mut launch = launch(variables)?;
    launch.limits = Limits {
        first: Duration::from_millis(500),
        all: Duration::from_millis(1500),
        answer: Duration::from_millis(500),
    };
    Sockets::launched(launch, |_| {}).map(Arc::new)
}

#[test]
fn ranks_with_different_secrets_are_told_so() {
    let port = free_port().expect("a free port");
    let mut all = [variables(0, 2, port), variables(1, 2, port)];
    all[0].insert("HLX_SECRET", "a secret of some length".to_owned());
    all[1].insert("HLX_SECRET", "another of some length".to_owned());
    let said: Vec<String> = std::thread::scope(|scope| {
        let start = |one| {
            let error = move || start_soon(one).map(drop).expect_err("fails").to_string();
            scope.spawn(error)
        };
        let threads = [start(&all[0]), start(&all[1])];
        threads.map(|one| one.join().expect("ends")).into()
    });
    let name = format!("MASTER_PORT {port} on 127.0.0.1:");
    let late = "rank 1 has not come within 1 s;";
    assert!(said[0].starts_with(&format!("{name} {late} ")), "{said:?}");
    assert!(
        said[0].ends_with("without this run's secret were refused"),
        "{said:?}"
    );
    let other = "what listens there is not rank 0 of this run, or has another HLX_SECRET;";
    assert!(said[1].starts_with(&format!("{name} {other} ")), "{said:?}");
}

/// Without a secret whoever reached the port was a rank.
#[test]
fn addresses_of_other_hosts_are_not_used_without_a_secret() {
    let port = free_port().expect("a free port");
    for address in ["192.0.2.1", "0.0.0.0", "2001:db8::1"] {
        for rank in [0, 1] {
            let mut one = variables(rank, 2, port);
            one.insert("MASTER_ADDR", address.to_owned());
            let said = start(&one).map(drop).expect_err("is refused").to_string();
            let expected = format!("MASTER_ADDR {address}: is not of this machine alone");
            assert!(said.starts_with(&expected), "{said}");
            for word in [
                "HLX_SECRET",
                "HLX_SECRET_FILE",
                "HLX_ALLOW_NO_SECRET=1",
                "openssl rand",
            ] {
                assert!(said.contains(word), "{said}");
            }
            one.insert("HLX_ALLOW_NO_SECRET", "1".to_owned());
            assert!(launch(&one).expect("reads").addresses().is_ok());
        }
    }
}

/// Life signs listened at all addresses of the host, and as long as the run.
#[test]
fn life_signs_listen_where_the_ranks_meet() {
    let port = free_port().expect("a free port");
    let mut all = [variables(0, 2, port), variables(1, 2, port)];
    for secret in ["", "a secret of some length"] {
        for variables in &mut all {
            variables.insert("HLX_SECRET", secret.to_owned());
        }
        let places = each(&all, |sockets| {
            let sockets = sockets.expect("starts");
            let own = sockets.links.own_addresses();
            let group = Group::new(sockets.clone());
            group.barrier().expect("all are there");
            // All that may come have come.
            let _ = sockets.links.check();
            let later = sockets.links.own_addresses();
            group.leave().expect("leaves");
            (own, later)
        });
        let is_local = |ip: &IpAddr| ip.is_loopback();
        for (addresses, later) in &places {
            assert!(addresses.iter().all(is_local), "{addresses:?}");
            assert!(later.is_empty(), "{later:?}");
        }
        assert!(!places[0].0.is_empty(), "rank 1 may connect for data");
    }
}

/// A rank that had come and was gone kept its number from the process that came for it.
#[test]
fn a_rank_that_has_gone_before_all_have_come_may_come_again() {
    let port = free_port().expect("a free port");
    let all = [0, 1, 2].map(|rank| variables(rank, 3, port));
    let done: Vec<Result<()>> = std::thread::scope(|scope| {
        let first = scope.spawn(|| start(&all[0]));
        let launch = launch(&all[1]).expect("reads");
        let call = crate::links::hello::Call {
            secret: &launch.secret,
            line: "3 1 host 127.0.0.1:9",
            limits: (Duration::from_secs(5), Duration::from_secs(5)),
            until: Instant::now() + Duration::from_secs(5),
        };
        let gone = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(10));
            call.at((std::net::Ipv4Addr::LOCALHOST, port).into(), || true)
        });
        let mut gone = gone.take(400).filter_map(|called| called.ok());
        let (line, answer) = gone.next().expect("is taken in");
        assert_eq!(answer, "welcome");
        drop(line);
        let others =
            [1, 2].map(|rank: usize| scope.spawn(move || start(&variables(rank, 3, port))));
        let others = others.map(|one| one.join().expect("a rank"));
        let all = others.into_iter().chain([first.join().expect("a rank")]);
        let all: Vec<_> = all.collect();
        all.into_iter().map(|started| started.map(drop)).collect()
    });
    assert_eq!(done, [Ok(()), Ok(()), Ok(())]);
}
