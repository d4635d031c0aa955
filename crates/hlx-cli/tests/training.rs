//! What watches over a run: skipped steps, averages, frozen parameters, recomputation, early stopping,
//! the best checkpoint, samples, and that all of it is resumed and verified.

mod common;

use std::fs;

use common::{Scratch, overrides, proof};
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::run::{Metric, read_metrics};
use hlx_train::train::{Outcome, Silent, Start, TrainOptions, Trainer};
use hlx_train::trained::Trained;

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

/// Continues with a run that has ended before its end.
fn resume(place: &Scratch, device: &Device, out: &str, sets: &[&str]) -> Outcome {
    let config = Config::load(&place.join("config.toml"), &overrides(sets)).expect("loads");
    let options = TrainOptions {
        start: Start::Resume(place.join(out)),
        data_path: place.join(&config.data.path),
    };
    let mut trainer = Trainer::new(device, config, &options).expect("resumes");
    trainer.run(&mut Silent).expect("trains")
}

/// A first step that throws the weights to where every later loss overflows.
const EXPLODES: [&str; 6] = [
    "train.optimizer=sgd",
    "train.schedule=constant",
    "train.warmup_steps=0",
    "train.learning_rate=1e37",
    "train.clip_norm=0",
    "train.skip_non_finite=true",
];

#[test]
fn steps_that_are_not_finite_leave_the_model_on_every_device() {
    let place = Scratch::new("skips");
    let one = [&EXPLODES[..], &["train.max_steps=1"]].concat();
    let reference = place.train(&cpu(), "one", &one);
    assert_eq!(reference.skipped, 0);
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        for micro in [8, 4, 1] {
            let micro_set = format!("train.micro_batch_size={micro}");
            let sets = [&EXPLODES[..], &[micro_set.as_str()]].concat();
            let out = format!("run-{number}-{micro}");
            let outcome = place.train(device, &out, &sets);
            assert_eq!(outcome.skipped, 5, "{}", device.info());
            let parameters = |outcome: &Outcome| outcome.digests.parameters.clone();
            assert_eq!(parameters(&outcome), parameters(&reference), "{out}");
        }
    }
    // Without the guard the same steps spoil the weights.
    let spoilt = [&EXPLODES[..5], &["train.allow_non_finite=true"]].concat();
    let spoilt = place.train(&cpu(), "spoilt", &spoilt);
    assert_ne!(spoilt.digests.parameters, reference.digests.parameters);
    let verified = place.succeeds(&["verify", "run-0-8"]);
    assert!(verified.contains("equal"), "{verified}");
}

#[test]
fn a_run_of_skipped_steps_ends_with_its_last_good_checkpoint_whole() {
    let place = Scratch::new("ends");
    let mut arguments = vec!["train", "config.toml", "--out", "run"];
    for set in EXPLODES
        .iter()
        .chain(&["train.max_skips=3", "train.checkpoint_every=1"])
    {
        arguments.extend(["--set", set]);
    }
    let line = place.fails(&arguments);
    let expected = "in 3 steps in a row, which were skipped; the newest checkpoint is of step 3";
    assert!(line.ends_with(expected), "{line}");
    assert_eq!(place.digests("run").step, 3);
    let metrics = read_metrics(&place.join("run/metrics.jsonl")).expect("reads");
    let skipped = metrics
        .iter()
        .any(|metric| matches!(metric, Metric::Train { skipped: Some(n), .. } if *n > 0));
    assert!(skipped, "{metrics:?}");
}

#[test]
fn recomputation_changes_no_bit() {
    for device in hlx_core::testing::own_devices() {
        let place = Scratch::new("recompute");
        let saved = place.train(&device, "saved", &["train.max_steps=3"]);
        for (micro, attention) in [(8, false), (2, false), (4, true)] {
            let micro = format!("train.micro_batch_size={micro}");
            let again = format!("train.recompute_attention={attention}");
            let sets = ["train.max_steps=3", "train.recompute=true", &micro, &again];
            let recomputed = place.train(&device, &micro, &sets);
            assert_eq!(proof(&recomputed.digests), proof(&saved.digests));
        }
    }
}

#[test]
fn frozen_parameters_stay_and_the_others_move() {
    let place = Scratch::new("freeze");
    let sets = [
        "train.freeze=[\"output.*\", \"blocks.0.*\"]",
        "train.max_steps=3",
    ];
    for optimizer in ["adamw", "muon"] {
        let optimizer = format!("train.optimizer={optimizer}");
        let mut trainer = place.trainer(&cpu(), &optimizer, &[&sets[..], &[&optimizer]].concat());
        let values = |trainer: &Trainer| {
            let weights = trainer.weights();
            weights.download(weights.values()).expect("downloads")
        };
        let before = values(&trainer);
        trainer.run(&mut Silent).expect("trains");
        let after = values(&trainer);
        let parameters = trainer.weights().parameters().iter();
        for (parameter, (before, after)) in parameters.zip(before.iter().zip(&after)) {
            let name = parameter.name();
            let frozen = name.starts_with("output.") || name.starts_with("blocks.0.");
            assert_eq!(before == after, frozen, "{name}");
        }
    }
    let line = place.fails(&["train", "config.toml", "--set", "train.freeze=[\"head.*\"]"]);
    assert!(
        line.contains("train.freeze: ") && line.contains("head.*"),
        "{line}"
    );
    let line = place.fails(&["train", "config.toml", "--set", "train.freeze=[\"*\"]"]);
    assert!(
        line.ends_with("train.freeze: no parameter is left to train"),
        "{line}"
    );
}

const AVERAGE: [&str; 4] = [
    "train.ema_decay=0.5",
    "train.schedule=constant",
    "data.eval_fraction=0.2",
    "train.eval_every=2",
];

#[test]
fn an_average_is_followed_resumed_evaluated_and_read() {
    let place = Scratch::new("average");
    let device = cpu();
    let whole = place.train(&device, "whole", &AVERAGE);
    place.train(
        &device,
        "parts",
        &[&AVERAGE[..], &["train.max_steps=3"]].concat(),
    );
    let parts = resume(&place, &device, "parts", &AVERAGE);
    assert_eq!(proof(&parts.digests), proof(&whole.digests));
    let plain = place.train(&device, "plain", &AVERAGE[1..]);
    assert_eq!(plain.digests.parameters, whole.digests.parameters);
    assert_ne!(plain.digests.optimizer, whole.digests.optimizer);
    // The evaluations read the average, or the weights.
    assert_ne!(plain.held_out, whole.held_out);
    let sets = [&AVERAGE[..], &["train.evaluate_average=false"]].concat();
    assert_eq!(
        place.train(&device, "weights", &sets).held_out,
        plain.held_out
    );
    let values = |average: bool| {
        let trained = Trained::open(&device, &place.join("whole"), average).expect("opens");
        let weights = trained.model.weights();
        weights.download(weights.values()).expect("downloads")
    };
    let distance: f32 = values(true)
        .concat()
        .iter()
        .zip(values(false).concat())
        .map(|(a, b)| (a - b).abs())
        .sum();
    assert!(distance > 0.0 && distance.is_finite());
    for other in hlx_core::testing::own_devices().iter().skip(1) {
        let found = place.train(
            other,
            "device",
            &[&AVERAGE[..], &["train.max_steps=3"]].concat(),
        );
        let reference = place.train(
            &device,
            "three",
            &[&AVERAGE[..], &["train.max_steps=3"]].concat(),
        );
        assert_eq!(proof(&found.digests), proof(&reference.digests));
        let _ = fs::remove_dir_all(place.join("device"));
        let _ = fs::remove_dir_all(place.join("three"));
    }
    let line = place.fails(&["generate", "plain", "--prompt", "one", "--average"]);
    assert!(
        line.ends_with("holds no moving average (train.ema_decay)"),
        "{line}"
    );
}

const NO_PROGRESS: [&str; 5] = [
    "train.learning_rate=0",
    "train.max_steps=20",
    "data.eval_fraction=0.2",
    "train.eval_every=2",
    "train.patience=2",
];

#[test]
fn a_run_without_improvement_stops_early_and_stays_stopped() {
    let place = Scratch::new("patience");
    // The first evaluation is the best, the second and the third are as good.
    let outcome = place.train(&cpu(), "run", &NO_PROGRESS);
    assert!(outcome.stopped_early && outcome.step == 6, "{outcome:?}");
    let again = resume(&place, &cpu(), "run", &NO_PROGRESS);
    assert_eq!((again.step, again.stopped_early), (6, true));
    let more = [&NO_PROGRESS[..4], &["train.patience=4"]].concat();
    assert_eq!(resume(&place, &cpu(), "run", &more).step, 10);
    // A run that is interrupted between evaluations counts on.
    let interrupted = [&NO_PROGRESS[..], &["train.schedule=constant"]].concat();
    place.train(
        &cpu(),
        "parts",
        &[&interrupted[..], &["train.max_steps=5"]].concat(),
    );
    assert_eq!(resume(&place, &cpu(), "parts", &interrupted).step, 6);
}

#[test]
fn the_best_checkpoint_is_written_held_and_named() {
    let place = Scratch::new("best");
    let sets = [
        "train.save_best=true",
        "data.eval_fraction=0.2",
        "train.eval_every=1",
        "train.keep=1",
        "train.schedule=constant",
        "train.learning_rate=2",
        "train.max_steps=12",
    ];
    let outcome = place.train(&cpu(), "run", &sets);
    let metrics = read_metrics(&place.join("run/metrics.jsonl")).expect("reads");
    let evaluations = metrics.iter().filter_map(|metric| match metric {
        Metric::Eval {
            step, loss, split, ..
        } if *split == hlx_train::run::EvalSplit::HeldOut => Some((*step, *loss)),
        _ => None,
    });
    let (step, loss) = evaluations
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("evaluations");
    let best = Trained::open(&cpu(), &place.join("run/best"), false).expect("opens");
    assert_eq!((best.digests.step, best.digests.loss), (step, Some(loss)));
    assert!(step < outcome.step, "a rate of 2 spoils the last step");
    let line = place.fails(&["generate", "nowhere/best", "--prompt", "one"]);
    assert!(line.contains("is no run folder"), "{line}");
}

#[test]
fn every_evaluation_writes_its_samples_and_the_events_are_there() {
    let place = Scratch::new("samples");
    let sets = [
        "sample.prompts=[\"one\", \"two\"]",
        "sample.max_tokens=5",
        "data.eval_fraction=0.2",
        "train.eval_every=3",
    ];
    place.train(&cpu(), "run", &sets);
    let metrics = read_metrics(&place.join("run/metrics.jsonl")).expect("reads");
    let samples = metrics
        .iter()
        .filter(|metric| matches!(metric, Metric::Sample { .. }));
    assert_eq!(samples.count(), 4);
    let events = |out: &str| {
        let entries = fs::read_dir(place.join(out)).expect("reads");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names
            .filter(|name| name.to_string_lossy().contains("tfevents"))
            .count()
    };
    assert_eq!(events("run"), 1);
    place.train(&cpu(), "without", &["train.tensorboard=false"]);
    assert_eq!(events("without"), 0);
}

#[test]
fn the_recipes_for_tiny_shakespeare_are_read() {
    for name in ["shakespeare.toml", "shakespeare-cpu.toml"] {
        let path = format!("{}/../../configs/{name}", env!("CARGO_MANIFEST_DIR"));
        let config = Config::load(path.as_ref(), &[]).expect("loads");
        assert!(
            config.data.has_random_windows() && config.train.save_best,
            "{name}"
        );
    }
}
