//! One digest for one configuration: on every device, with any threads, in any micro-batches,
//! stopped and resumed.

mod common;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Scratch, overrides, proof};
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::run::Digests;
use hlx_train::train::{Silent, Start, TrainOptions, Trainer};

/// A run's arithmetic.
const BOTH: [&str; 2] = ["arithmetic=portable", "arithmetic=integer"];

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

#[test]
fn every_device_gives_the_same_bits_twice() {
    for arithmetic in BOTH {
        devices_agree(arithmetic);
    }
}

fn devices_agree(arithmetic: &str) {
    let place = Scratch::new("devices");
    let reference = place.train(&cpu(), "reference", &[arithmetic]);
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let outcome = place.train(device, &format!("run-{number}"), &[arithmetic]);
        let device = device.info();
        assert_eq!(
            proof(&outcome.digests),
            proof(&reference.digests),
            "{device}"
        );
        assert_eq!(outcome.train, reference.train, "{device}");
        // The losses and norms of every step too, but not the times.
        assert_eq!(outcome.digests.loss, reference.digests.loss, "{device}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for arithmetic in BOTH {
        threads_change_nothing(arithmetic);
    }
}

fn threads_change_nothing(arithmetic: &str) {
    let place = Scratch::new("threads");
    let digests: Vec<(String, String)> = ["1", "2", "3"]
        .iter()
        .map(|threads| {
            let out = format!("run-{threads}");
            let arguments = ["train", "config.toml", "--set", arithmetic, "--out", &out];
            let mut command = place.hlx(&arguments);
            let output = command
                .env("HLX_THREADS", threads)
                .output()
                .expect("starts");
            assert!(output.status.success(), "{}", common::text(&output.stderr));
            proof(&place.digests(&out))
        })
        .collect();
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0], digests[2]);
}

#[test]
fn micro_batches_change_nothing() {
    for arithmetic in BOTH {
        any_micro_batches_agree(arithmetic);
    }
}

fn any_micro_batches_agree(arithmetic: &str) {
    for device in hlx_core::testing::own_devices() {
        let place = Scratch::new("micro");
        // Shards of two samples, which are whole in the integer arithmetic.
        let sizes: &[usize] = match arithmetic == BOTH[1] {
            true => &[8, 4, 2],
            false => &[8, 4, 2, 1],
        };
        let digests: Vec<(String, String)> = sizes
            .iter()
            .map(|size| {
                let set = format!("train.micro_batch_size={size}");
                let sets = [set.as_str(), "train.max_steps=3", arithmetic];
                proof(&place.train(&device, &format!("run-{size}"), &sets).digests)
            })
            .collect();
        for other in &digests[1..] {
            assert_eq!(*other, digests[0], "{}", device.info());
        }
    }
}

#[test]
fn seeds_shards_and_data_do_change_it() {
    let place = Scratch::new("changes");
    let reference = place.train(&cpu(), "reference", &[]);
    let sets = ["seed=8", "train.shards=1", "model.dropout=0.2", BOTH[1]];
    for (number, set) in sets.iter().enumerate() {
        let outcome = place.train(&cpu(), &format!("run-{number}"), &[set]);
        assert_ne!(proof(&outcome.digests), proof(&reference.digests), "{set}");
    }
}

/// A text whose windows begin at random places: stopped in the middle of an epoch and resumed, on every
/// device.
#[test]
fn random_windows_are_the_same_after_an_interruption() {
    let place = Scratch::new("windows");
    place.write(
        "text.txt",
        &"to be, or not to be: that is the question. ".repeat(9),
    );
    let text = [
        "data.path=text.txt",
        "data.format=text",
        "data.eval_fraction=0.2",
        "train.schedule=constant",
    ];
    let random = [&text[..], &["data.windows=random"]].concat();
    let whole = place.train(&cpu(), "whole", &random);
    let fixed = place.train(&cpu(), "fixed", &text);
    assert_ne!(proof(&whole.digests), proof(&fixed.digests));
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let out = format!("parts-{number}");
        place.train(
            device,
            &out,
            &[&random[..], &["train.max_steps=4"]].concat(),
        );
        let config = Config::load(&place.join("config.toml"), &overrides(&random)).expect("loads");
        let options = TrainOptions {
            start: Start::Resume(place.join(&out)),
            data_path: place.join("text.txt"),
        };
        let mut trainer = Trainer::new(device, config, &options).expect("resumes");
        let outcome = trainer.run(&mut Silent).expect("trains");
        assert_eq!(proof(&outcome.digests), proof(&whole.digests));
        assert_eq!(outcome.held_out, whole.held_out);
    }
}

/// The run that the two tests of interruption make: a checkpoint each step, evaluations, and an
/// epoch that ends between two log lines.
const STEPS: u64 = 150;
const LONG: [&str; 9] = [
    "train",
    "config.toml",
    "--set",
    "train.max_steps=150",
    "--set",
    "train.checkpoint_every=1",
    "--set",
    "data.eval_fraction=0.2",
    "--out",
];

/// Everything that `digests.json` states but the link to the checkpoint before, and the seal.
fn without_links(digests: Digests) -> Digests {
    Digests {
        previous: String::new(),
        seal: String::new(),
        ..digests
    }
}

#[test]
#[cfg(unix)]
fn a_run_killed_at_a_random_step_goes_on_to_the_same_bits() {
    use std::os::unix::process::ExitStatusExt;

    let place = Scratch::new("killed");
    place.succeeds(&[&LONG[..], &["whole"]].concat());
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock")
        .subsec_nanos();
    let step = 3 + u64::from(nanos / 1000) % (STEPS / 2);
    let mut child = place
        .hlx(&[&LONG[..], &["killed"]].concat())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let reached = place.join(&format!("killed/checkpoints/step-{step:06}"));
    while !reached.exists() && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("SIGKILL");
    let status = child.wait().expect("a child");
    assert_eq!(
        status.signal(),
        Some(9),
        "the run ended before step {step} was seen: {status}"
    );
    place.succeeds(&[&LONG[..], &["killed", "--resume"]].concat());
    let (whole, killed) = (place.digests("whole"), place.digests("killed"));
    assert_eq!(killed.step, STEPS);
    assert_eq!(
        without_links(killed),
        without_links(whole),
        "killed at step {step}"
    );
    let steps = |run: &str| {
        let metrics = hlx_train::run::read_metrics(&place.join(run).join("metrics.jsonl"));
        metrics
            .expect("metrics")
            .iter()
            .map(|metric| metric.step())
            .collect::<Vec<_>>()
    };
    assert_eq!(steps("killed"), steps("whole"));
    let chain = |run: &str| std::fs::read(place.join(run).join("chain.jsonl")).expect("a chain");
    assert!(chain("killed") == chain("whole"), "killed at step {step}");
}

#[test]
fn a_run_resumed_on_another_device_and_in_other_micro_batches_has_the_same_bits() {
    for arithmetic in BOTH {
        moved_runs_agree(arithmetic);
    }
}

fn moved_runs_agree(arithmetic: &str) {
    let place = Scratch::new("moved");
    // The same length, so the same rates; the stop comes from outside.
    let sets = ["train.schedule=constant", "train.max_steps=6", arithmetic];
    let whole = place.train(&cpu(), "whole", &sets);
    let devices = hlx_core::testing::own_devices();
    place.train(
        &cpu(),
        "moved",
        &["train.schedule=constant", "train.max_steps=3", arithmetic],
    );
    let sets = common::overrides(&[&sets[..], &["train.micro_batch_size=2"]].concat());
    let config = Config::load(&place.join("config.toml"), &sets).expect("loads");
    let options = TrainOptions {
        start: Start::Resume(place.join("moved")),
        data_path: place.join("corpus.jsonl"),
    };
    let last = devices.last().expect("a device");
    let mut trainer = Trainer::new(last, config, &options).expect("resumes");
    assert_eq!(trainer.step(), 3);
    let moved = trainer.run(&mut Silent).expect("trains");
    assert_eq!(
        proof(&moved.digests),
        proof(&whole.digests),
        "{}",
        last.info()
    );
}
