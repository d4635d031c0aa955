//! Evaluations and texts over ranks: the lines of one process, word for word ([`check`] compares them),
//! whatever the number of samples and prompts.

use std::fs;

use super::threads::{self, CPU};
use super::{check, metrics};
use crate::common::{SMALL_MODEL, Scratch};

/// Evaluations at steps 1 and 2; checkpoints and log lines as [`check`] has them.
const OFTEN: [&str; 2] = ["train.max_steps=2", "train.eval_every=1"];

/// The held-out pairs are fewer than the ranks, as many, and more; 20 pairs are trained on or held out.
#[test]
fn pairs_are_evaluated_over_ranks() {
    let place = Scratch::new("ranks-eval-pairs");
    for (fraction, arithmetic) in [(0.01, "portable"), (0.2, "portable"), (0.4, "integer")] {
        let held_out = format!("data.eval_fraction={fraction}");
        let arithmetic = format!("arithmetic={arithmetic}");
        let sets = [&OFTEN[..], &[&held_out, &arithmetic]].concat();
        let outcome = check(&place, &sets, &[&[CPU; 2], &[CPU; 4]]);
        let n_samples = outcome.held_out.expect("evaluates").n_samples;
        assert_eq!(n_samples, (20.0_f64 * fraction).ceil() as u64);
    }
}

#[test]
fn a_moving_average_is_evaluated_over_ranks() {
    let place = Scratch::new("ranks-eval-average");
    let average = ["train.ema_decay=0.5", "data.eval_fraction=0.25"];
    let of_average = check(
        &place,
        &[&OFTEN[..], &average].concat(),
        &[&[CPU; 2], &[CPU; 4]],
    );
    let plain = check(&place, &[&OFTEN[..], &average[1..]].concat(), &[&[CPU; 2]]);
    assert_ne!(of_average.held_out, plain.held_out);
}

/// A text and prepared tokens, of which a part is held out; rows of several lengths.
#[test]
fn texts_and_tokens_are_evaluated_over_ranks() {
    let place = Scratch::new("ranks-eval-tokens");
    let corpus = "the cat sat on the mat, and the dog on the log. ".repeat(9);
    place.write("text.txt", &corpus);
    let text = [
        "data.path=text.txt",
        "data.format=text",
        "data.eval_fraction=0.3",
    ];
    check(
        &place,
        &[&OFTEN[..], &text].concat(),
        &[&[CPU; 2], &[CPU; 4]],
    );
    place.write("config.toml", SMALL_MODEL);
    place.prepare_tokens();
    let held_out = ["data.eval_fraction=0.3"];
    check(
        &place,
        &[&OFTEN[..], &held_out].concat(),
        &[&[CPU; 2], &[CPU; 4]],
    );
    let padded = ["data.path=pairs", "data.rows=padded", held_out[0]];
    check(
        &place,
        &[&OFTEN[..], &padded].concat(),
        &[&[CPU; 2], &[CPU; 4]],
    );
}

/// Fewer prompts than ranks, and more; drawn, so that a text depends on the prompt's own numbers.
#[test]
fn prompts_are_shared_and_written_in_order() {
    let place = Scratch::new("ranks-prompts");
    for prompts in [
        "[\"one\"]",
        "[\"one\", \"two\", \"three\", \"four\", \"five\", \"one\"]",
    ] {
        let prompts = format!("sample.prompts={prompts}");
        let sets = ["data.eval_fraction=0.2", "sample.max_tokens=5", &prompts];
        let sets = [&OFTEN[..], &sets].concat();
        check(&place, &sets, &[&[CPU; 2], &[CPU; 4]]);
        let run = threads::Run::new(&place, "shown", &sets);
        threads::train(&run, &[CPU; 4]).expect("trains");
        let lines = metrics(&place, "shown");
        let texts = lines.iter().filter(|line| line["kind"] == "sample");
        assert_eq!(texts.count(), 2 * (prompts.matches('"').count() / 2));
        fs::remove_dir_all(place.join("shown")).expect("removed");
    }
}
