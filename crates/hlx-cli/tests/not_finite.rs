//! A run whose loss or parameters become NaN or infinite says so, ends with status 3, and retains its last
//! finite checkpoint.

mod common;

use std::fs;

use common::{SMALL_MODEL, Scratch, contents, overrides, status};
use hlx_nn::{MODEL_FILE, check_finite};
use hlx_train::config::Config;
use hlx_train::train::{NotFinite, Silent, Start, TrainOptions, Trainer};

/// A first step that throws the weights to where every later loss is NaN, and a checkpoint after each.
const EXPLODES: [&str; 9] = [
    "train.optimizer=sgd",
    "train.schedule=constant",
    "train.warmup_steps=0",
    "train.learning_rate=1e37",
    "train.clip_norm=0",
    "train.checkpoint_every=1",
    "train.keep=2",
    "train.log_every=2",
    "train.max_steps=6",
];

/// A first step whose update gives infinite parameters, after a loss that is still finite.
const OVERFLOWS: [&str; 5] = [
    "train.optimizer=sgd",
    "train.schedule=constant",
    "train.warmup_steps=0",
    "train.learning_rate=1e39",
    "train.clip_norm=0",
];

/// A small classifier, which needs few kernels.
const DIGITS: [&str; 2] = [
    "model={kind=\"mlp\",hidden=[8]}",
    "data={format=\"digits\",count=40}",
];

/// `hlx train config.toml --out run` with settings.
fn train<'a>(out: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    ["train", "config.toml", "--out", out]
        .into_iter()
        .chain(sets)
        .collect()
}

/// Runs the program, which must end with this status, and returns what it wrote to standard error.
fn ends(place: &Scratch, arguments: &[&str], expected: i32) -> String {
    let (code, stdout, stderr) = status(place, arguments);
    assert_eq!(code, expected, "{arguments:?}\n{stdout}\n{stderr}");
    stderr
}

/// The checkpoints of a run, and whether the parameters of each are finite.
fn checkpoints(place: &Scratch, run: &str) -> Vec<(String, bool)> {
    let entries = fs::read_dir(place.join(run).join("checkpoints")).expect("reads");
    let mut found: Vec<(String, bool)> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let model = fs::read(path.join(MODEL_FILE)).expect("a model");
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), check_finite(&model).is_ok())
        })
        .collect();
    found.sort();
    found
}

fn finite(steps: &[(u64, bool)]) -> Vec<(String, bool)> {
    let named = steps.iter();
    named
        .map(|(step, finite)| (format!("step-{step:06}"), *finite))
        .collect()
}

#[test]
fn a_run_of_any_kind_ends_at_the_first_log_line_that_is_not_finite() {
    let of_text = ["data={path=\"text.txt\",format=\"text\"}"];
    let kinds: [(&str, &[&str]); 3] = [("pairs", &[]), ("text", &of_text), ("images", &DIGITS)];
    for (kind, sets) in kinds {
        let place = Scratch::new(kind);
        place.write("text.txt", &"the cat sat on the mat. ".repeat(40));
        let arguments = train("run", &[sets, &EXPLODES].concat());
        let line = ends(&place, &arguments, 3);
        assert_eq!(line.lines().count(), 1, "{kind}: {line}");
        for words in [
            "error: run: the loss of step 2 is NaN; the run has ended here. ",
            "The newest finite checkpoint is run/checkpoints/step-000001, of step 1: ",
            "(--set train.init_from=run/checkpoints/step-000001)",
            "train.allow_non_finite = true",
        ] {
            assert!(line.contains(words), "{kind}: {line}");
        }
        assert_eq!(checkpoints(&place, "run"), finite(&[(1, true)]), "{kind}");
        // The last line is of step 2, in JSON, where NaN is null.
        let metrics = fs::read_to_string(place.join("run/metrics.jsonl")).expect("reads");
        let last = metrics.lines().last().expect("a line");
        let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(
            (&last["step"], &last["loss"]),
            (&2.into(), &serde_json::Value::Null)
        );
        assert!(
            place.succeeds(&["verify", "run"]).contains("equal"),
            "{kind}"
        );
    }
}

#[test]
fn tokens_and_adapters_end_alike() {
    let place = Scratch::exported("not-finite-tokens", SMALL_MODEL);
    let line = ends(&place, &train("tokens-run", &EXPLODES), 3);
    assert!(
        line.contains("step-000001, of step 1: begin another run from it"),
        "{line}"
    );
    let lora = ["train.init_from=hub", "lora={rank=2}"];
    let line = ends(
        &place,
        &train("lora-run", &[&lora[..], &EXPLODES].concat()),
        3,
    );
    // Adapters are not read by `train.init_from`.
    assert!(
        line.contains("begin another run with other settings"),
        "{line}"
    );
    assert!(
        checkpoints(&place, "lora-run")
            .iter()
            .all(|(_, is_finite)| *is_finite)
    );
}

/// The decision is made of the loss, so that files end with the same step on every device.
#[test]
fn every_device_ends_after_the_same_step() {
    let place = Scratch::new("not-finite-devices");
    let mut chains = Vec::new();
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let out = format!("run-{number}");
        let sets = [
            &EXPLODES[..],
            &[
                "train.log_every=1",
                "train.checkpoint_every=0",
                DIGITS[0],
                DIGITS[1],
            ],
        ]
        .concat();
        let mut trainer = place.trainer(device, &out, &sets);
        let outcome = trainer.run(&mut Silent).expect("ends");
        let error = outcome.not_finite.expect("a reason");
        assert!(
            error.to_string().contains("It has no finite checkpoint"),
            "{error}"
        );
        let metrics = fs::read_to_string(place.join(&out).join("metrics.jsonl")).expect("reads");
        assert_eq!(metrics.lines().count(), 2, "{metrics}");
        chains.push(fs::read(place.join(&out).join("chain.jsonl")).expect("a chain"));
    }
    assert!(chains.iter().all(|chain| *chain == chains[0]));
}

#[test]
fn a_run_that_may_go_on_keeps_its_last_finite_checkpoint_and_warns_once() {
    let place = Scratch::new("not-finite-allowed");
    let allowed = [
        &EXPLODES[..],
        &["train.allow_non_finite=true", "data.eval_fraction=0.2"],
    ]
    .concat();
    let arguments = train("run", &allowed);
    let warning = ends(&place, &arguments, 0);
    assert_eq!(warning.lines().count(), 1, "{warning}");
    assert!(
        warning.contains("WARN") && warning.contains("the loss of step 2 is NaN"),
        "{warning}"
    );
    let expected = finite(&[(1, true), (5, false), (6, false)]);
    assert_eq!(checkpoints(&place, "run"), expected);
    assert!(place.succeeds(&["verify", "run"]).contains("equal"));
    let line = place.fails(&["plot", "run"]);
    assert!(
        line.ends_with("has measured no loss that is finite and above 0"),
        "{line}"
    );
    // Going on from what is not finite is refused before anything is written.
    let before = contents(&place.join("run"));
    let more = [
        &EXPLODES[..],
        &["data.eval_fraction=0.2", "train.max_steps=8"],
    ]
    .concat();
    let line = ends(
        &place,
        &[&train("run", &more)[..], &["--resume"]].concat(),
        3,
    );
    assert!(
        line.starts_with("error: run/checkpoints/step-000006: "),
        "{line}"
    );
    assert!(line.contains("NaN or infinite value"), "{line}");
    assert!(
        line.contains("The newest finite checkpoint is run/checkpoints/step-000001"),
        "{line}"
    );
    assert_eq!(contents(&place.join("run")), before);
    let more = [&allowed[..], &["train.max_steps=7", "train.keep=1"]].concat();
    ends(
        &place,
        &[&train("run", &more)[..], &["--resume"]].concat(),
        0,
    );
    assert_eq!(checkpoints(&place, "run"), finite(&[(1, true), (7, false)]));
}

#[test]
fn a_checkpoint_whose_parameters_are_not_finite_is_not_saved() {
    let place = Scratch::new("not-finite-parameters");
    // The only loss is finite: the parameters tell.
    let line = ends(
        &place,
        &train("run", &[&OVERFLOWS[..], &["train.max_steps=1"]].concat()),
        3,
    );
    assert!(
        line.contains("the parameters after step 1 are not finite"),
        "{line}"
    );
    assert!(line.contains("It has no finite checkpoint"), "{line}");
    assert_eq!(contents(&place.join("run/checkpoints")), []);
    // An evaluation before the next loss is NaN, is not the best one, and writes no samples.
    let sets = [
        "data.eval_fraction=0.2",
        "train.eval_every=1",
        "train.save_best=true",
        "train.target_loss=100",
        "sample.prompts=[\"one\"]",
    ];
    let line = ends(&place, &train("eval", &[&OVERFLOWS[..], &sets].concat()), 3);
    assert!(
        line.contains("the loss over what is held out after step 1 is NaN"),
        "{line}"
    );
    assert!(
        line.contains("error: eval: the loss of step 2 is NaN"),
        "{line}"
    );
    assert_eq!(contents(&place.join("eval/checkpoints")), []);
}

#[test]
fn a_run_all_of_whose_steps_are_skipped_has_trained_nothing() {
    let place = Scratch::new("not-finite-skips");
    ends(&place, &train("run", &EXPLODES), 3);
    // These weights are finite, and no loss is.
    let stuck = [
        "train.init_from=run/checkpoints/step-000001",
        "train.skip_non_finite=true",
    ];
    let line = ends(&place, &train("stuck", &stuck), 3);
    assert!(line.contains("all 2 steps so far were skipped"), "{line}");
    assert!(
        line.contains("error: stuck: all 6 steps were skipped"),
        "{line}"
    );
    assert_eq!(checkpoints(&place, "stuck"), finite(&[(6, true)]));
    let few = [&stuck[..], &["train.max_skips=3"]].concat();
    let line = ends(&place, &train("few", &few), 3);
    assert!(
        line.contains("in 3 steps in a row, which were skipped"),
        "{line}"
    );
}

#[test]
fn a_rank_for_each_shard_ends_with_the_status_of_one() {
    let place = Scratch::new("not-finite-ranks");
    let ranks = ["--devices", "cpu,cpu"];
    let line = ends(&place, &[&train("run", &EXPLODES)[..], &ranks].concat(), 3);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        line.contains("run: the loss of step 2 is NaN; the run has ended here."),
        "{line}"
    );
    assert_eq!(checkpoints(&place, "run"), finite(&[(1, true)]));
    let line = ends(
        &place,
        &[
            &train("last", &[&OVERFLOWS[..], &["train.max_steps=1"]].concat())[..],
            &ranks,
        ]
        .concat(),
        3,
    );
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        line.contains("the parameters after step 1 are not finite"),
        "{line}"
    );
    assert_eq!(contents(&place.join("last/checkpoints")), []);
}

/// A run that an older program has left with parameters that are not finite, which no listing says.
#[test]
fn a_spoilt_checkpoint_is_found_by_its_parameters() {
    let place = Scratch::new("not-finite-older");
    let allowed = [&EXPLODES[..], &["train.allow_non_finite=true"]].concat();
    ends(&place, &train("run", &allowed), 0);
    for step in [5, 6] {
        let folder = place.join(&format!("run/checkpoints/step-{step:06}"));
        let digests = hlx_train::run::Checkpoint::open(&folder).expect("opens");
        let files: Vec<_> = digests.digests.files.keys().cloned().collect();
        let files = files.iter();
        let files: Vec<(&str, Vec<u8>)> = files
            .map(|name| (&name[..], digests.file(name).expect("a file").to_vec()))
            .collect();
        let mut unmarked = digests.digests.clone();
        assert!(unmarked.non_finite);
        unmarked.non_finite = false;
        fs::remove_dir_all(&folder).expect("removes");
        let parent = place.join("run/checkpoints");
        hlx_train::run::Checkpoint::write(&parent, unmarked, &files).expect("writes");
    }
    let config = Config::load(&place.join("config.toml"), &overrides(&EXPLODES)).expect("loads");
    let options = TrainOptions {
        start: Start::Resume(place.join("run")),
        data_path: place.join("corpus.jsonl"),
    };
    let device = hlx_core::testing::cpu().expect("opens");
    let error = Trainer::new(&device, config, &options)
        .err()
        .expect("is refused");
    assert!(error.is::<NotFinite>(), "{error:#}");
    assert!(
        error.to_string().contains("step-000001, of step 1"),
        "{error}"
    );
}
