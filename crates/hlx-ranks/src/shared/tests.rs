//! Ranks as threads of one process: each has handles of its own, as processes do.

use std::sync::Arc;

use super::*;
use crate::{Group, Refusal};

/// Runs a body as each of `n` ranks, and returns what they return.
pub(crate) fn ranks<R: Send>(n: usize, body: impl Fn(&SharedMemory, Group) -> R + Sync) -> Vec<R> {
    let folder = SharedMemory::create(n).expect("a folder");
    let (folder, body) = (&folder, &body);
    let rank = |rank| {
        let shared = Arc::new(SharedMemory::open(folder, rank, |_| {}).expect("opens"));
        shared.connect(|| None).expect("connects");
        let group = Group::new(shared.clone());
        if group.barrier().is_ok() && rank == 0 {
            shared.remove_folder();
        }
        body(&shared, group)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|number| scope.spawn(move || rank(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank"))
            .collect()
    })
}

#[test]
fn all_ranks_gather_the_same() {
    for n in [2, 3, 4, 8] {
        let all = ranks(n, |_, group| {
            let mine = vec![group.rank() as u8; 3 * group.rank()];
            let all = group.gather(&mine).expect("gathers");
            let first = group.from_first(&[7, group.rank() as u8]).expect("gathers");
            group.leave().expect("leaves");
            (all, first)
        });
        let expected: Vec<Vec<u8>> = (0..n).map(|rank| vec![rank as u8; 3 * rank]).collect();
        assert!(
            all.iter()
                .all(|found| *found == (expected.clone(), vec![7, 0]))
        );
    }
}

/// Messages longer than all slots, of unequal lengths, both ways at once.
#[test]
fn long_messages_arrive_whole() {
    let byte = |rank: usize, at: usize| (at * 31 + rank * 7 + at / 4096) as u8;
    ranks(2, |_, group| {
        let rank = group.rank();
        // The longer ones are copied by two threads.
        for lengths in [
            [5_000_001, 3_300_000],
            [9_000_001, 4_300_000],
            [1, 5_000_000],
        ] {
            let out: Vec<u8> = (0..lengths[rank]).map(|at| byte(rank, at)).collect();
            let mut into = vec![0; lengths[1 - rank]];
            group.swap(1 - rank, &out, &mut into).expect("swaps");
            let wrong = into
                .iter()
                .enumerate()
                .find(|(at, found)| **found != byte(1 - rank, *at));
            assert_eq!(wrong, None);
        }
        group.leave().expect("leaves");
    });
}

/// Short messages behind each other lie in both slots at once: the later one was once taken first.
#[test]
fn short_messages_keep_their_order() {
    ranks(4, |_, group| {
        for round in 0..2000_u32 {
            let all = group
                .gather(&round.to_le_bytes()[..1 + round as usize % 4])
                .expect("gathers");
            let expected = round.to_le_bytes()[..1 + round as usize % 4].to_vec();
            assert!(
                all.iter().all(|found| *found == expected),
                "{round}: {all:?}"
            );
        }
        group.leave().expect("leaves");
    });
}

#[test]
fn ranks_agree_on_the_first_refusal() {
    let found = ranks(4, |_, group| {
        let answers = group.agree(Ok(&[group.rank() as u8])).expect("talks");
        assert_eq!(answers, Ok(vec![vec![0], vec![1], vec![2], vec![3]]));
        let mine = match group.rank() {
            1 | 3 => Err(format!("no {}", group.rank())),
            _ => Ok(&[][..]),
        };
        group.agree(mine).expect("talks").expect_err("refused")
    });
    let expected = Refusal {
        rank: 1,
        line: "no 1".to_owned(),
    };
    assert!(found.iter().all(|refusal| *refusal == expected));
}

/// The rank that fails first is named, not those that end because of it.
#[test]
fn every_rank_hears_which_one_failed() {
    let found = ranks(4, |_, group| {
        if group.rank() == 2 {
            group.fail("the disk is full");
            return None;
        }
        group.barrier().err()
    });
    for (rank, error) in found.into_iter().enumerate().filter(|(rank, _)| *rank != 2) {
        let expected = format!("rank 2 on {}: the disk is full", host_name());
        assert_eq!(
            error.map(|error| error.to_string()),
            Some(expected),
            "{rank}"
        );
    }
}

/// A rank that is gone without a word, as after SIGKILL.
#[test]
fn a_rank_that_is_gone_is_noticed() {
    let begun = Instant::now();
    let found = ranks(2, |_, group| match group.rank() {
        1 => None,
        _ => group.barrier().err(),
    });
    let expected = format!("rank 1 on {}: its process has ended", host_name());
    assert_eq!(found[0].as_ref().map(ToString::to_string), Some(expected));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_second_process_of_a_rank_and_a_rank_too_many_are_refused() {
    let folder = SharedMemory::create(2).expect("a folder");
    let first = SharedMemory::open(&folder, 1, |_| {}).expect("opens");
    let error = |rank| {
        let opened = SharedMemory::open(&folder, rank, |_| {});
        opened
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(
        error(1).ends_with("another process is rank 1"),
        "{}",
        error(1)
    );
    assert!(
        error(2).ends_with("rank 2, expected less than 2"),
        "{}",
        error(2)
    );
    first.remove_folder();
    assert!(!folder.exists());
}

#[test]
fn a_file_that_is_no_memory_is_refused() {
    let folder = SharedMemory::create(2).expect("a folder");
    let path = folder.join(MEMORY);
    let bytes = fs::read(&path).expect("reads");
    for wrong in [&bytes[..100], &bytes[..bytes.len() - 1], &[1; 8192][..]] {
        fs::write(&path, wrong).expect("writes");
        let error = SharedMemory::open(&folder, 0, |_| {}).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.ends_with("is no memory of ranks"), "{text}");
    }
    fs::remove_dir_all(folder).expect("removes");
}
