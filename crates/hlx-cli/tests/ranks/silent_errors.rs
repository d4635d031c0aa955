//! Silent errors of a rank: a bit of its memory is changed, and the run ends before the next checkpoint with
//! the rank's name.

use std::fs;

use hlx_core::{Buffer, Device};
use hlx_train::ranks::Group;
use hlx_train::train::{Observer, Outcome, Silent, Trainer};

use super::threads::{self, CPU, Run};
use crate::common::Scratch;

/// Changes one bit of a rank's memory after a step.
struct Fault {
    device: Device,
    words: Buffer,
    at: usize,
    after_step: u64,
}

impl Observer for Fault {
    fn step(&mut self, step: u64, _: u64) {
        if step != self.after_step {
            return;
        }
        let word = self.words.slice(self.at, 1).expect("a word");
        let bits = self.device.download_words(&word).expect("downloads");
        self.device
            .upload_words(&word, &[bits[0] ^ 1 << 20])
            .expect("uploads");
    }
}

/// Trains over ranks, where the memory of `odd` changes after a step; returns what each ends with.
fn train(run: &Run, n_ranks: usize, odd: usize, after_step: u64) -> Vec<anyhow::Result<Outcome>> {
    let observer = |rank: usize, trainer: &Trainer| -> Box<dyn Observer> {
        if rank != odd {
            return Box::new(Silent);
        }
        let parameters = trainer.weights().spans("");
        Box::new(Fault {
            device: trainer.device().clone(),
            words: trainer.weights().values().clone(),
            // The first word of the output projection, which every logit's softmax depends on.
            at: parameters.last().expect("one").offset,
            after_step,
        })
    };
    threads::each(n_ranks, |rank: usize, group: Group| {
        let outcome = run.observed(&group, CPU, &|trainer: &Trainer| observer(rank, trainer));
        if let Err(error) = &outcome {
            group.fail(&format!("{error:#}"));
        }
        outcome
    })
}

/// The lines that all ranks end with.
fn errors(run: &Run, n_ranks: usize, odd: usize, after_step: u64) -> Vec<String> {
    let outcomes = train(run, n_ranks, odd, after_step).into_iter();
    let line = |outcome: anyhow::Result<Outcome>| format!("{:#}", outcome.expect_err("is found"));
    outcomes.map(line).collect()
}

/// Fails unless all ranks end with one line that begins so, names these ranks and leaves no later checkpoint.
fn found(lines: &[String], begins: &str, named: &[usize], place: &Scratch) {
    for line in lines {
        assert_eq!(line, &lines[0], "the same line on all ranks");
        assert!(line.starts_with(begins) && !line.contains('\n'), "{line}");
        for rank in 0..lines.len() {
            let is_named = line.contains(&format!("rank {rank} on "));
            assert_eq!(is_named, named.contains(&rank), "{rank}: {line}");
        }
    }
    let newest = hlx_train::run::RunFolder::open(&place.join("run")).expect("opens");
    let newest = newest.newest().expect("is whole").expect("one");
    assert_eq!(newest.digests.step, 2);
    fs::remove_dir_all(place.join("run")).expect("removed");
}

const SETS: [&str; 3] = [
    "train.log_every=2",
    "train.checkpoint_every=2",
    "train.shards=4",
];

/// A bit changes after step 4, whose record is compared before its checkpoint is written.
#[test]
fn a_state_that_differs_ends_the_run_before_the_next_checkpoint() {
    let place = Scratch::new("ranks-silent-state");
    let run = Run::new(&place, "run", &SETS);
    let begins = "a silent error: after step 4 the state of rank";
    for odd in [0, 2] {
        found(&errors(&run, 4, odd, 4), begins, &[odd], &place);
    }
    found(&errors(&run, 2, 1, 4), begins, &[0, 1], &place);
}

/// A bit changes after step 3: in step 4 the second shard is computed by rank 1 and by rank 2.
#[test]
fn a_gradient_that_differs_ends_the_run_before_the_step() {
    let place = Scratch::new("ranks-silent-gradient");
    let run = Run::new(&place, "run", &SETS);
    let begins = "a silent error: before step 4 the gradient of shard 1, computed by rank";
    for odd in [1, 2] {
        found(&errors(&run, 4, odd, 3), begins, &[odd], &place);
    }
    found(&errors(&run, 2, 1, 3), begins, &[0, 1], &place);
}

/// Without checks the same run comes to its end: the test would not fail without a comparison.
#[test]
fn checks_can_be_disabled() {
    let place = Scratch::new("ranks-silent-off");
    let sets = [&SETS[..], &["train.check_ranks=false"]].concat();
    let run = Run::new(&place, "run", &sets);
    for after_step in [3, 4] {
        let outcomes = train(&run, 4, 2, after_step);
        assert!(outcomes.iter().all(anyhow::Result::is_ok), "{outcomes:?}");
        fs::remove_dir_all(place.join("run")).expect("removed");
    }
}
