//! Activations saved in 16 bits, scaled losses, and runs of `fast`, whose bits are those of one place.

mod common;

use std::fs;

use common::{Scratch, overrides, proof};
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::run::{Chain, Manifest};
use hlx_train::train::{Outcome, Silent, Start, TrainOptions, Trainer};

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

/// Continues with a run that has ended before its end.
fn resume(place: &Scratch, device: &Device, out: &str, sets: &[&str]) -> anyhow::Result<Outcome> {
    let config = Config::load(&place.join("config.toml"), &overrides(sets)).expect("loads");
    let options = TrainOptions {
        start: Start::Resume(place.join(out)),
        data_path: place.join(&config.data.path),
    };
    Trainer::new(device, config, &options)?.run(&mut Silent)
}

/// Ranks have the bits and the chain of one device.
#[test]
fn ranks_in_fast_have_the_bits_and_the_chain_of_one() {
    let place = Scratch::new("ranks-in-fast");
    for arithmetic in ["arithmetic=fast", "arithmetic=fast_f16"] {
        let train = |devices: [&str; 2], out: &str| {
            let set = ["--set", arithmetic, "--out", out];
            place.succeeds(&[&["train", "config.toml"], &devices[..], &set].concat());
            fs::read(place.join(out).join("chain.jsonl")).expect("a chain")
        };
        let one = train(["--device", "cpu"], &format!("{arithmetic}-one"));
        let two = train(["--devices", "cpu,cpu"], &format!("{arithmetic}-two"));
        assert_eq!(one, two, "{arithmetic}");
    }
}

const SETS: [&str; 4] = [
    "train.saved=bf16",
    "train.loss_scale=dynamic",
    "train.schedule=constant",
    "train.ema_decay=0.5",
];

#[test]
fn activations_in_16_bits_and_a_scaled_loss_are_one_run_on_every_device() {
    for arithmetic in ["arithmetic=portable", "arithmetic=integer"] {
        let place = Scratch::new("saved");
        let sets = [&SETS[..], &[arithmetic]].concat();
        let reference = place.train(&cpu(), "whole", &sets);
        let exact = place.train(
            &cpu(),
            "exact",
            &[&sets[1..], &["train.saved=f32"]].concat(),
        );
        assert_ne!(proof(&reference.digests), proof(&exact.digests));
        assert_ne!(reference.digests.config, exact.digests.config);
        assert_eq!(exact.skipped, 0);
        for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
            let (out, again) = (format!("run-{number}"), ["train.recompute=true"]);
            let half = [
                &sets[..],
                &["train.micro_batch_size=4", "train.max_steps=3"],
            ]
            .concat();
            place.train(device, &out, &half);
            let rest = [&sets[..], &again].concat();
            let outcome = resume(&place, device, &out, &rest).expect("resumes");
            let info = device.info();
            assert_eq!(
                proof(&outcome.digests),
                proof(&reference.digests),
                "{arithmetic}, {info}"
            );
        }
        let verified = place.succeeds(&["verify", "whole", "--micro-batch-size", "4"]);
        assert!(verified.contains("equal"), "{verified}");
    }
    let place = Scratch::new("saved-default");
    let bits = |sets: &[&str]| {
        let config = Config::load(&place.join("config.toml"), &overrides(sets)).expect("loads");
        config.identity_digest().expect("a digest")
    };
    assert_eq!(
        bits(&["train.saved=f32"]),
        bits(&[]),
        "what is left out is f32"
    );
    let line = place.fails(&["train", "config.toml", "--set", "train.saved=f16"]);
    assert!(line.contains("train.saved"), "{line}");
    for wrong in ["0", "-1", "\"auto\"", "1e40"] {
        let set = format!("train.loss_scale={wrong}");
        let line = place.fails(&["train", "config.toml", "--set", &set]);
        assert!(line.contains("train.loss_scale"), "{line}");
    }
}

#[test]
fn a_scale_of_a_power_of_two_changes_no_parameter_and_one_that_overflows_skips() {
    let place = Scratch::new("scales");
    let plain = place.train(&cpu(), "plain", &["train.max_steps=3"]);
    let scaled = place.train(
        &cpu(),
        "scaled",
        &["train.max_steps=3", "train.loss_scale=256"],
    );
    assert_eq!(plain.digests.parameters, scaled.digests.parameters);
    assert_ne!(
        plain.digests.optimizer, scaled.digests.optimizer,
        "the scale is a part of it"
    );
    assert_eq!(plain.last_loss, scaled.last_loss);
    // 2^80 times a gradient has a norm whose square is infinite.
    let sets = [
        "train.max_steps=3",
        "train.max_skips=4",
        "train.loss_scale=1.2089258196146292e24",
    ];
    let skipped = place.train(&cpu(), "skipped", &sets);
    assert_eq!(skipped.skipped, 3);
    assert!(skipped.not_finite.is_some(), "nothing was trained");
}

#[test]
fn a_run_of_fast_names_its_place_and_is_checked_and_resumed_nowhere_else() {
    let place = Scratch::new("fast");
    let sets = [
        "arithmetic=fast",
        "train.schedule=constant",
        "train.micro_batch_size=8",
    ];
    let half = [&sets[..], &["train.max_steps=3"]].concat();
    place.train(&cpu(), "run", &half);
    let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
    let here = chain.place_at(3).expect("a place").clone();
    assert_eq!(here.device, "the CPU device");
    assert_eq!(place.digests("run").place, Some(here.clone()));
    let manifest = fs::read(place.join("run/run.json")).expect("reads");
    let manifest = Manifest::from_bytes(&manifest).expect("a manifest");
    assert_eq!(manifest.arithmetic, "fast");
    assert!(place.succeeds(&["verify", "run"]).contains("equal"));
    let elsewhere = hlx_core::testing::own_devices();
    for device in elsewhere.iter().filter(|device| !device.is_cpu()) {
        let line = resume(&place, device, "run", &sets).expect_err("another place");
        let line = format!("{line:#}");
        assert!(line.contains("was computed on the CPU device"), "{line}");
        assert!(line.contains("train.allow_other_device = true"), "{line}");
        let verification =
            hlx_train::verify::Verification::new(device, &place.join("run"), &Default::default());
        let line = format!("{:#}", verification.err().expect("cannot be checked"));
        assert!(line.contains("cannot be checked here"), "{line}");
        assert!(line.contains("one device model with one driver"), "{line}");
    }
    let outcome = resume(&place, &cpu(), "run", &sets).expect("resumes");
    let whole = place.train(&cpu(), "whole", &sets);
    assert_eq!(proof(&outcome.digests), proof(&whole.digests));
    let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
    let places = chain
        .records()
        .iter()
        .filter(|proved| proved.record.place.is_some());
    assert_eq!(places.count(), 1, "it has not moved");
}
