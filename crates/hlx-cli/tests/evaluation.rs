//! `hlx eval` and `hlx perplexity` of model folders: what a run measures, its folders measure.

mod common;

use std::fs;

use common::{SMALL_MODEL, Scratch};
use serde_json::Value;

/// A folder with prepared tokens, a run (`run`), and its model in Hugging Face's form (`hub`) and in
/// HLX's (`mine`).
fn place(name: &str) -> Scratch {
    let config = SMALL_MODEL.replace("positions = 64", "positions = 4096");
    let config = config.replace("length = 16", "length = 24");
    let config = config.replace("path = \"tokens\"", "path = \"pairs\"");
    let place = Scratch::exported(name, &config);
    place.succeeds(&["import", "hub", "--out", "mine"]);
    place
}

fn json(place: &Scratch, arguments: &str) -> Value {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let line = place.succeeds(&[&arguments[..], &["--json"]].concat());
    serde_json::from_str(&line).expect("an object")
}

#[test]
fn a_folder_measures_what_its_run_measures() {
    let place = place("evaluation");
    for rows in ["windows", "separate_windows", "packed", "padded"] {
        let run = format!("run-{rows}");
        let set = format!("data.rows={rows}");
        let sets = ["--set", &set, "--set", "train.max_steps=1"];
        place.succeeds(&[&["train", "config.toml", "--out", &run], &sets[..]].concat());
        place.succeeds(&["export", &run, &format!("hub-{rows}")]);
        let expected = json(&place, &format!("eval {run}"));
        let folder = format!("eval hub-{rows} --data pairs --rows {rows} --length 24");
        let found = json(&place, &folder);
        assert_eq!(found["evaluation"], expected["evaluation"], "{rows}");
        assert!(
            found["evaluation"]["n_tokens"].as_u64() > Some(40),
            "{found}"
        );
    }
    let of_run = json(&place, "eval run --exact --dtype bf16");
    for folder in ["hub", "mine"] {
        let options = "--data pairs --length 24 --exact --dtype bf16";
        let found = json(&place, &format!("eval {folder} {options}"));
        assert_eq!(found["evaluation"], of_run["evaluation"]);
        assert_eq!(found["answers"], 40);
        assert_eq!(found["exact_answers"], of_run["exact_answers"]);
    }
    let printed = place.succeeds(&["eval", "hub", "--data", "tokens"]);
    assert!(
        printed.starts_with("loss ") && printed.contains("rows       1 of at most 2048 tokens"),
        "{printed}"
    );

    // Windows of a model of many positions are short enough for their logits.
    let found = json(&place, "perplexity hub --text a.txt");
    assert_eq!(
        (&found["length"], &found["stride"]),
        (&2048.into(), &1024.into())
    );
    let short = "--data a.txt --length 32 --stride 8";
    let of_run = json(&place, &format!("perplexity run {short}"));
    let of_folder = json(&place, &format!("perplexity mine {short}"));
    assert_eq!(of_run["perplexity"], of_folder["perplexity"]);
    assert_ne!(of_folder["perplexity"], found["perplexity"]);
}

/// A run, its folder, and weights of 16 bits; a run of integers is measured in them unless another arithmetic is given.
#[test]
fn a_model_of_either_arithmetic_is_measured_in_either() {
    let place = place("evaluation-arithmetic");
    let integers = ["--set", "arithmetic=integer", "--out", "integers"];
    place.succeeds(&[&["train", "config.toml"], &integers[..]].concat());
    place.succeeds(&["export", "integers", "hub-integers"]);
    let measured = |arguments: &str| {
        let short = "--data a.txt --length 32 --stride 8";
        json(&place, &format!("perplexity {arguments} {short}"))["perplexity"].clone()
    };
    for (run, folder, own) in [
        ("run", "hub", "portable"),
        ("integers", "hub-integers", "integer"),
    ] {
        let [portable, integer] = ["portable", "integer"].map(|arithmetic| {
            let of_run = measured(&format!("{run} --arithmetic {arithmetic}"));
            let of_folder = measured(&format!("{folder} --arithmetic {arithmetic}"));
            assert_eq!(of_run, of_folder, "{run} {arithmetic}");
            of_run
        });
        assert_ne!(portable, integer);
        let expected = if own == "portable" {
            &portable
        } else {
            &integer
        };
        assert_eq!(
            measured(run),
            *expected,
            "a run is measured in its own arithmetic"
        );
        assert_eq!(measured(folder), portable, "a folder has none");
        let rounded = ["portable", "integer"]
            .map(|arithmetic| measured(&format!("{run} --dtype bf16 --arithmetic {arithmetic}")));
        assert_ne!(rounded[0], rounded[1]);
        let evaluated = json(&place, &format!("eval {run}"));
        let [portable, integer] = ["portable", "integer"].map(|arithmetic| {
            json(&place, &format!("eval {run} --arithmetic {arithmetic}"))["evaluation"].clone()
        });
        assert_ne!(portable, integer);
        let expected = if own == "portable" { portable } else { integer };
        assert_eq!(evaluated["evaluation"], expected);
    }
}

#[test]
fn what_a_folder_cannot_be_measured_on_is_said_in_one_line() {
    let place = place("evaluation-refused");
    let fails = |arguments: &str| place.fails(&arguments.split(' ').collect::<Vec<_>>());
    for (arguments, expected) in [
        (
            "eval hub --data tokens --held-out",
            "--held-out: hub is no run, and holds no sample out",
        ),
        (
            "eval hub --data tokens --misread a.png",
            "--misread: hub is no classifier",
        ),
        (
            "eval hub --data tokens --length 4097",
            "--length 4097: expected 1 to the model's 4096 positions",
        ),
        (
            "eval hub --data tokens --average",
            "hub: is no run, and has no moving average",
        ),
        (
            "eval hub --data tokens --exact",
            "--exact: document 0 is no record of input and output",
        ),
        (
            "eval run --rows packed",
            "--rows: a run's rows are those of its configuration",
        ),
        (
            "eval run --length 8",
            "--length: a run's rows are those of its configuration",
        ),
    ] {
        assert_eq!(fails(arguments), format!("error: {expected}"));
    }
    // The rest is the next useful command (tests/verbs/next.rs).
    let line = fails("eval hub");
    assert!(
        line.starts_with("error: --data: hub is no run, and has no data: "),
        "{line}"
    );
    let line = fails("eval hub --data a.txt");
    assert!(line.starts_with("error: a.txt: "), "{line}");
    let line = fails("eval nothing --data tokens");
    assert!(line.contains("nothing: is no run folder"), "{line}");
    fails("perplexity hub --data nothing.txt");

    let train = "tokenizer train --vocab 270 -o other.json a.txt pairs.jsonl";
    place.succeeds(&train.split(' ').collect::<Vec<_>>());
    let prepare = "data prepare --tokenizer other.json -o other a.txt";
    place.succeeds(&prepare.split(' ').collect::<Vec<_>>());
    assert_eq!(
        fails("eval hub --data other"),
        "error: --data: was prepared with another tokenizer than hub/tokenizer.json"
    );
    let train = "tokenizer train --vocab 300 -o wide.json a.txt pairs.jsonl";
    place.succeeds(&train.split(' ').collect::<Vec<_>>());
    let prepare = "data prepare --tokenizer wide.json -o wide a.txt";
    place.succeeds(&prepare.split(' ').collect::<Vec<_>>());
    let line = fails("eval hub --data wide");
    let expected = "error: --data: its tokenizer has 300 tokens, and the model 280: wide/";
    assert!(line.starts_with(expected), "{line}");
}

/// A checkpoint holds a model's files too, but none of them is read unless the digests prove them.
#[test]
fn a_damaged_checkpoint_is_no_model_folder() {
    let place = place("evaluation-damaged");
    let checkpoints = fs::read_dir(place.join("run/checkpoints")).expect("there");
    let checkpoint = checkpoints.flatten().next().expect("one").path();
    let file = checkpoint.join("model.safetensors");
    let mut bytes = fs::read(&file).expect("read");
    *bytes.last_mut().expect("long") ^= 1;
    fs::write(&file, bytes).expect("written");
    fs::copy(
        place.join("tokenizer.json"),
        checkpoint.join("tokenizer.json"),
    )
    .expect("copied");
    let path = checkpoint.display().to_string();
    for arguments in [
        &["eval", &path, "--data", "tokens"][..],
        &["perplexity", &path, "--data", "a.txt"],
        &["generate", &path, "--prompt", "river"],
        &["export", &path, "out"],
    ] {
        let line = place.fails(arguments);
        assert!(line.contains("model.safetensors"), "{arguments:?}: {line}");
    }
}
