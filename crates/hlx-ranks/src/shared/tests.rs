//! Ranks as threads of one process: each has handles of its own, as processes do.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use super::*;
use crate::{Group, Refusal};

fn secret() -> Secret {
    Secret::random().expect("random numbers")
}

/// Runs a body as each of `n` ranks, and returns what they return.
pub(crate) fn ranks<R: Send>(n: usize, body: impl Fn(&SharedMemory, Group) -> R + Sync) -> Vec<R> {
    let secret = secret();
    let folder = SharedMemory::create(n, &secret).expect("a folder");
    let (folder, secret, body) = (&folder, &secret, &body);
    let rank = |rank| {
        let shared = Arc::new(SharedMemory::open(folder, rank, secret, |_| {}).expect("opens"));
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

/// Short messages one after another lie in both slots at once: the later one was once taken first.
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
    let secret = secret();
    let folder = SharedMemory::create(2, &secret).expect("a folder");
    let first = SharedMemory::open(&folder, 1, &secret, |_| {}).expect("opens");
    let error = |rank| {
        let opened = SharedMemory::open(&folder, rank, &secret, |_| {});
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
    let secret = secret();
    let folder = SharedMemory::create(2, &secret).expect("a folder");
    let path = folder.join(MEMORY);
    let bytes = fs::read(&path).expect("reads");
    for wrong in [&bytes[..100], &bytes[..bytes.len() - 1], &[1; 8192][..]] {
        fs::write(&path, wrong).expect("writes");
        let error = SharedMemory::open(&folder, 0, &secret, |_| {}).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.ends_with("is no memory of ranks"), "{text}");
    }
    // The numbers of ranks and of bytes in a slot.
    for (at, word) in [
        (1, 0),
        (1, 3),
        (1, 1 << 61),
        (2, 0),
        (2, 4097),
        (2, 1 << 63),
        (2, u64::MAX),
    ] {
        let mut wrong = bytes.clone();
        wrong[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        fs::write(&path, wrong).expect("writes");
        assert!(
            SharedMemory::open(&folder, 0, &secret, |_| {}).is_err(),
            "{at} {word}"
        );
    }
    fs::remove_dir_all(folder).expect("removes");
}

/// A length in the memory that is longer than a slot was read beyond it, and ended the process.
#[test]
fn a_chunk_longer_than_its_slot_is_an_error() {
    let secret = secret();
    let folder = SharedMemory::create(2, &secret).expect("a folder");
    let path = folder.join(MEMORY);
    let bytes = fs::read(&path).expect("reads");
    let slot = u64::from_le_bytes(*bytes[16..].first_chunk().expect("a word")) as usize;
    let first = SharedMemory::open(&folder, 0, &secret, |_| {}).expect("opens");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opens");
    let of_second = 4096 + (4096 + 2 * slot) as u64;
    for (at, word) in [(2, 2 * slot as u64 + 8), (0, 1 << 16)] {
        file.seek(SeekFrom::Start(of_second + 8 * (8 + 8 + at)))
            .expect("seeks");
        file.write_all(&word.to_le_bytes()).expect("writes");
    }
    let error = first
        .swap(1, &[], &mut vec![0; 3 * slot])
        .expect_err("is refused");
    let expected = format!("a message of {} bytes, expected {}", 2 * slot + 8, 3 * slot);
    assert!(error.to_string().ends_with(&expected), "{error}");
    first.remove_folder();
}

#[test]
#[cfg(unix)]
fn no_other_user_can_open_the_memory_and_its_locks() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = SharedMemory::create(2, &secret()).expect("a folder");
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for name in [MEMORY, "rank-0", "rank-1"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    fs::remove_dir_all(folder).expect("removes");
}

/// A folder that somebody else has made under a name that a rank opens was opened.
#[test]
#[cfg(unix)]
fn folders_that_others_can_open_links_and_those_of_others_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let secret = secret();
    let folder = SharedMemory::create(2, &secret).expect("a folder");
    let error = |path: &Path| {
        let opened = SharedMemory::open(path, 1, &secret, |_| {}).map(drop);
        opened.expect_err("is refused").to_string()
    };
    let link = folder.with_extension("link");
    std::os::unix::fs::symlink(&folder, &link).expect("a link");
    assert!(error(&link).contains("is no folder"));
    fs::remove_file(&link).expect("removes");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).expect("set");
    assert!(error(&folder).ends_with("other users can open it"));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("set");
    if private::user() == 0 {
        std::os::unix::fs::chown(&folder, Some(12_345), None).expect("root may");
        assert!(error(&folder).ends_with("belongs to another user"));
    }
    fs::remove_dir_all(folder).expect("removes");
}

/// Who knows the folder but not the secret is not a rank, takes the place of none, and ends no start.
#[test]
fn a_process_without_the_secret_is_no_rank() {
    let (ours, other) = (secret(), secret());
    let folder = SharedMemory::create(2, &ours).expect("a folder");
    let refused = SharedMemory::open(&folder, 1, &other, |_| {}).map(drop);
    let error = refused.expect_err("is refused").to_string();
    assert!(
        error.ends_with("is the memory of ranks with another secret"),
        "{error}"
    );
    let both = [0, 1].map(|rank| SharedMemory::open(&folder, rank, &ours, |_| {}).expect("opens"));
    assert_eq!(both[0].connect(|| None), Ok(()));
    // One that says that it is connected, and does not show that it knows the secret.
    both[0].memory.prove(1, &other);
    let error = both[0].connect(|| None).expect_err("is refused");
    assert!(
        error
            .to_string()
            .ends_with("does not know the secret of this run"),
        "{error}"
    );
    both[0].remove_folder();
}

/// Folders of other users, links, and folders of the user's own whose names begin alike were removed.
#[test]
#[cfg(unix)]
fn only_what_ranks_of_this_user_have_left_is_removed() {
    let parent = std::env::temp_dir().join(format!("hlx-stale-{}", std::process::id()));
    let _ = fs::remove_dir_all(&parent);
    let folder = |name: &str, files: &[&str]| {
        fs::create_dir_all(parent.join(name)).expect("made");
        for file in files {
            fs::write(parent.join(name).join(file), "x").expect("writes");
        }
    };
    folder(
        "hlx-ranks-12-0123456789abcdef",
        &[MEMORY, "rank-0", "rank-1"],
    );
    folder("hlx-ranks-13-0", &["rank-0"]);
    folder("hlx-ranks-notes", &["rank-0"]);
    folder("hlx-ranks-14-0", &["rank-0", "thesis.tex"]);
    folder("hlx-ranks-15-0/rank-0", &[]);
    folder("hlx-ranks-16-0", &[MEMORY, "rank-0"]);
    folder("theirs", &["rank-0"]);
    std::os::unix::fs::symlink(parent.join("theirs"), parent.join("hlx-ranks-17-0"))
        .expect("a link");
    folder("hlx-ranks-18-0", &[]);
    let elsewhere = parent.join("theirs/rank-0");
    std::os::unix::fs::symlink(elsewhere, parent.join("hlx-ranks-18-0/rank-0")).expect("a link");
    let mut stays = vec![
        "hlx-ranks-14-0",
        "hlx-ranks-15-0",
        "hlx-ranks-16-0",
        "hlx-ranks-17-0",
        "hlx-ranks-18-0",
        "hlx-ranks-notes",
        "theirs",
    ];
    if private::user() == 0 {
        folder("hlx-ranks-19-0", &["rank-0"]);
        std::os::unix::fs::chown(parent.join("hlx-ranks-19-0"), Some(12_345), None).expect("may");
        stays.insert(5, "hlx-ranks-19-0");
    }
    let held = File::open(parent.join("hlx-ranks-16-0/rank-0")).expect("opens");
    held.try_lock().expect("locks");
    stale::remove_older(&parent, Duration::from_secs(60));
    let names = || {
        let entries = fs::read_dir(&parent).expect("reads").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names().len(), stays.len() + 2, "they are young");
    stale::remove_older(&parent, Duration::ZERO);
    assert_eq!(names(), stays);
    fs::remove_dir_all(parent).expect("removes");
}
