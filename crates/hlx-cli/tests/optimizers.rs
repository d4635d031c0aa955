//! Runs by every optimizer and by schedules with a state: equal on every device, resumed in the middle,
//! and verified.

mod common;

use common::{Scratch, overrides, proof};
use hlx_train::config::Config;
use hlx_train::run::{Chain, RunFolder};
use hlx_train::train::{Observer, Silent, Start, TrainOptions, Trainer};
use hlx_train::verify::{Verification, VerifyOptions, checkpoint_tensors, tensor_names};

/// Ends a run after three of its steps.
struct StopAtThree(u64);

impl Observer for StopAtThree {
    fn step(&mut self, step: u64, _total_steps: u64) {
        self.0 = step;
    }

    fn must_stop(&self) -> bool {
        self.0 == 3
    }
}

/// The settings of each run. A batch of 8 of 20 pairs makes epochs of three steps; a plateau without
/// patience, whose loss must fall by half in an epoch, falls before the third.
const RUNS: [(&str, &[&str]); 10] = [
    ("sgd", &["train.optimizer=sgd", "optimizer.nesterov=true"]),
    (
        "adagrad",
        &["train.optimizer=adagrad", "train.schedule=one_cycle"],
    ),
    (
        "rmsprop",
        &["train.optimizer=rmsprop", "optimizer.centered=true"],
    ),
    (
        "lion",
        &["train.optimizer=lion", "train.learning_rate=0.001"],
    ),
    (
        "muon",
        &["train.optimizer=muon", "train.micro_batch_size=4"],
    ),
    (
        "groups",
        &[
            "groups=[{parameters=[\"*.bias\"],weight_decay=0.0}]",
            "train.clip_value=0.01",
        ],
    ),
    (
        "step",
        &[
            "train.schedule=step",
            "schedule.step_size=2",
            "schedule.gamma=0.5",
        ],
    ),
    (
        "plateau",
        &[
            "train.schedule=plateau",
            "train.max_steps=9",
            "schedule.patience=0",
            "schedule.threshold=0.5",
            "schedule.factor=0.25",
        ],
    ),
    // Matrices of 5,184 elements, whose last block is not full, beside smaller ones.
    (
        "adamw8bit",
        &["train.optimizer=adamw8bit", "model.width=36"],
    ),
    (
        "adafactor",
        &["train.optimizer=adafactor", "train.learning_rate=0.01"],
    ),
];

#[test]
fn runs_are_equal_on_every_device_resumed_and_verified() {
    for (name, sets) in RUNS {
        let place = Scratch::new(name);
        let cpu = hlx_core::testing::cpu().expect("the CPU device opens");
        let reference = place.train(&cpu, "reference", sets);
        for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
            let out = format!("run-{number}");
            let mut first = place.trainer(device, &out, sets);
            let stopped = first.run(&mut StopAtThree(0)).expect("trains");
            assert!(stopped.interrupted && stopped.step == 3, "{name}");
            drop(first);
            let config = Config::load(&place.join("config.toml"), &overrides(sets));
            let options = TrainOptions {
                start: Start::Resume(place.join(&out)),
                data_path: place.join("corpus.jsonl"),
            };
            let resumed = Trainer::new(device, config.expect("loads"), &options);
            let outcome = resumed.expect("resumes").run(&mut Silent).expect("trains");
            assert_eq!(
                proof(&outcome.digests),
                proof(&reference.digests),
                "{name} on {}",
                device.info()
            );
            let options = VerifyOptions::default();
            let verification = Verification::new(&cpu, &place.join(&out), &options);
            let report = verification.expect("can be checked").run(&mut |_| {});
            assert_eq!(report.expect("verifies").difference, None, "{name}");
        }
    }
}

/// The settings above do change the run: each has other bits than AdamW's cosine.
#[test]
fn every_setting_has_other_bits() {
    let place = Scratch::new("settings");
    let cpu = hlx_core::testing::cpu().expect("the CPU device opens");
    let mut seen = vec![proof(&place.train(&cpu, "adamw", &[]).digests)];
    for (name, sets) in RUNS {
        let found = proof(&place.train(&cpu, name, sets).digests);
        assert!(!seen.contains(&found), "{name}");
        seen.push(found);
        records_are_of_the_stored_tensors(&place, name);
    }
    let averaged = ["train.ema_decay=0.5", "train.optimizer=muon"];
    place.train(&cpu, "averaged", &averaged);
    records_are_of_the_stored_tensors(&place, "averaged");
}

/// A checkpoint's tensors have the digests of its record, in the same order, and so have their names.
fn records_are_of_the_stored_tensors(place: &Scratch, run: &str) {
    let folder = RunFolder::open(&place.join(run)).expect("is a run");
    let newest = folder.newest().expect("reads").expect("a checkpoint");
    let config = folder.config().expect("reads");
    let stored = checkpoint_tensors(&newest, &config).expect("reads");
    let chain = Chain::read(&folder.chain_path()).expect("reads");
    let record = &chain.records().last().expect("a record").record;
    let roots: Vec<&str> = stored.iter().map(|tensor| &tensor.digest[..16]).collect();
    assert_eq!(roots, record.tensors, "{run}");
    let names: Vec<&str> = stored.iter().map(|tensor| &tensor.name[..]).collect();
    assert_eq!(names, tensor_names(&folder).expect("reads"), "{run}");
    assert!(names.len() > 10, "{run}");
}

/// A state in the host's memory changes no bit, and takes none of the device's memory.
#[test]
fn an_offloaded_state_has_the_same_bits() {
    let place = Scratch::new("offload");
    let cpu = hlx_core::testing::cpu().expect("the CPU device opens");
    for optimizer in ["adamw8bit", "adafactor"] {
        let kind = format!("train.optimizer={optimizer}");
        let sets = [&kind[..], "model.width=36", "train.ema_decay=0.5"];
        let reference = place.train(&cpu, &format!("{optimizer}-reference"), &sets);
        let offloaded = [&sets[..], &["train.offload=optimizer"]].concat();
        for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
            let out = format!("{optimizer}-{number}");
            let mut trainer = place.trainer(device, &out, &offloaded);
            let memory = trainer.memory().clone();
            assert_eq!(memory.host_bytes > 0, !device.is_cpu());
            let outcome = trainer.run(&mut Silent).expect("trains");
            assert_eq!(proof(&outcome.digests), proof(&reference.digests), "{out}");
            drop(trainer);
            if !device.is_cpu() {
                let whole = place.trainer(device, &format!("{out}-there"), &sets);
                let (there, here) = (whole.memory(), memory.state_bytes);
                assert!(there.host_bytes == 0 && there.state_bytes >= here, "{out}");
            }
        }
    }
}

#[test]
fn a_plateau_falls_and_keeps_its_state_in_the_checkpoint() {
    let place = Scratch::new("plateau");
    let cpu = hlx_core::testing::cpu().expect("the CPU device opens");
    let (_, sets) = RUNS[7];
    place.train(&cpu, "plateau", sets);
    let checkpoint = place.join("plateau/checkpoints/step-000009");
    assert!(checkpoint.join("schedule.bin").exists());
    // Without a fall the run is that of the constant schedule.
    let fallen = place.digests("plateau");
    place.train(
        &cpu,
        "constant",
        &["train.schedule=constant", "train.max_steps=9"],
    );
    assert_ne!(proof(&fallen), proof(&place.digests("constant")));
    let constant = place.join("constant/checkpoints/step-000009/schedule.bin");
    assert!(!constant.exists());
}

#[test]
fn a_group_without_parameters_is_refused_by_its_pattern() {
    let place = Scratch::new("pattern");
    let line = place.fails(&[
        "train",
        "config.toml",
        "--out",
        "run",
        "--set",
        "groups=[{parameters=[\"lair.*\"]}]",
    ]);
    assert!(line.contains("lair.*"), "{line}");
}
