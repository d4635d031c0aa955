//! `hlx compare`: where two runs first differ, and that equal ones are equal.

use serde_json::Value;

use super::{place, status, train};

fn compared(place: &crate::common::Scratch, more: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = status(place, &[&["compare", "a", "b", "--json"], more].concat());
    assert_eq!(stderr, "");
    (code, serde_json::from_str(&stdout).expect("JSON"))
}

#[test]
fn equal_runs_are_equal_however_they_were_cut() {
    let place = place("equal");
    train(&place, "a", &[]);
    let sets = [
        "train.micro_batch_size=2",
        "train.log_every=2",
        "train.eval_every=0",
    ];
    train(&place, "b", &sets);
    let (code, value) = compared(&place, &[]);
    assert_eq!(
        (code, &value["equal"], &value["equal_to"]),
        (0, &true.into(), &6.into())
    );
    assert_eq!(
        (&value["kind"], &value["difference"]),
        (&"compare".into(), &Value::Null)
    );
    let keys = value["configuration"].as_array().expect("a list");
    let names: Vec<_> = keys
        .iter()
        .map(|key| key["key"].as_str().expect("a key"))
        .collect();
    assert_eq!(
        names,
        [
            "train.eval_every",
            "train.log_every",
            "train.micro_batch_size"
        ]
    );
    assert!(keys.iter().all(|key| key["decides_bits"] == false));
    assert!(
        place
            .succeeds(&["compare", "a", "a"])
            .ends_with("result     equal\n")
    );
}

#[test]
fn a_run_that_ends_earlier_is_equal_as_far_as_it_goes() {
    let place = place("prefix");
    // A rate that depends on a run's length makes runs of other lengths other runs.
    let constant = "train.schedule=\"constant\"";
    train(&place, "a", &[constant]);
    train(&place, "b", &[constant, "train.max_steps=4"]);
    let printed = place.succeeds(&["compare", "a", "b"]);
    assert!(
        printed.ends_with("equal      up to step 4\nresult     equal as far as both go\n"),
        "{printed}"
    );
}

#[test]
fn the_first_step_and_tensor_that_differ_are_named() {
    let place = place("differs");
    train(&place, "a", &["train.log_every=3"]);
    // The rate is that of the warm-up until step 2, whatever its schedule is.
    let sets = [
        "train.log_every=3",
        "train.schedule=\"linear\"",
        "train.checkpoint_every=3",
    ];
    train(&place, "b", &sets);
    let (code, value) = compared(&place, &[]);
    let by_records = &value["difference"];
    assert_eq!(
        (code, &value["equal"], &value["equal_to"]),
        (1, &false.into(), &3.into())
    );
    assert_eq!(
        (&by_records["what"], &by_records["state_step"]),
        (&"loss".into(), &6.into())
    );
    assert_eq!(by_records["source"], "checkpoints");
    let step = by_records["step"].as_u64().expect("a step");
    assert!((4..=6).contains(&step), "{value}");
    let (code, value) = compared(&place, &["--recompute", "--device", "cpu"]);
    let again = &value["difference"];
    assert_eq!(
        (code, &again["source"], &again["step"]),
        (1, &"recomputed".into(), &by_records["step"])
    );
    // A step's loss is computed before its update: the states differ after the step before.
    assert_eq!(again["state_step"].as_u64(), Some(step - 1));
    let tensor = &again["tensor"];
    assert_eq!(tensor["name"], "token_embedding.weight");
    assert_ne!(tensor["element"]["bits"][0], tensor["element"]["bits"][1]);
    assert!(again["n_differing"].as_u64() > Some(0));
}

#[test]
fn another_seed_differs_from_the_start() {
    let place = place("seed");
    train(&place, "a", &[]);
    train(&place, "b", &["seed=8"]);
    let (code, stdout, _) = status(&place, &["compare", "a", "b"]);
    assert_eq!(code, 1);
    for line in [
        "config     seed = 7 | 8",
        "equal      nothing",
        "differs    at step 0: parameters",
    ] {
        assert!(stdout.contains(line), "{stdout}");
    }
    assert!(
        stdout.contains("\ntensor     token_embedding.weight\n"),
        "{stdout}"
    );
}
