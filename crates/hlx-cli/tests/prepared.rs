//! What is known of prepared data: how documents began, that inputs are answered, and which labels are left.

mod common;

use std::fs;

use common::forms::{Forms, add, check};
use common::{Scratch, text};
use hlx_text::Preparation;
use hlx_train::chat::Conversation;
use hlx_train::generate::{TextModel, TokenGeneration};
use hlx_train::opening::Opening;
use hlx_train::sample::Sampling;
use serde_json::{Value, json};

const CONFIG: &str = r#"seed = 5

[model]
architecture = "llama3"
width = 32
n_layers = 1
n_heads = 4
n_kv_heads = 2
feed_forward_width = 48
positions = 32

[data]
path = "pairs"
format = "shards"
rows = "padded"

[train]
max_steps = 240
batch_size = 8
learning_rate = 0.006
log_every = 20
checkpoint_every = 0
"#;

/// The inputs and the outputs of a corpus of pairs.
fn pairs() -> Vec<(String, String)> {
    let words = ["river", "light", "stone", "bird", "sea", "hill"];
    let pair = |at: usize| (format!("the {}", words[at]), words[(at + 1) % 6].to_owned());
    (0..6).map(pair).collect()
}

/// A tokenizer that begins a text with a token, pairs prepared with it, and a run over them.
fn trained(name: &str) -> Scratch {
    let place = Scratch::new(name);
    place.write("config.toml", CONFIG);
    let line = |(input, output): &(String, String)| {
        json!({"input": input, "output": output}).to_string() + "\n"
    };
    let lines: String = pairs().iter().map(line).collect();
    place.write("pairs.jsonl", &lines.repeat(4));
    place.succeeds(&[
        "tokenizer",
        "train",
        "--vocab",
        "280",
        "--special",
        "<|endoftext|>",
        "--special",
        "<|begin|>",
        "pairs.jsonl",
    ]);
    begin_texts(&place);
    place.succeeds(&[
        "data",
        "prepare",
        "--tokenizer",
        "tokenizer.json",
        "-o",
        "pairs",
        "pairs.jsonl",
    ]);
    place.succeeds(&["train", "config.toml", "--out", "run"]);
    place
}

/// Lets the tokenizer put its first token in front of a text, as those of Llama do.
fn begin_texts(place: &Scratch) {
    let path = place.join("tokenizer.json");
    let read = fs::read_to_string(&path).expect("reads");
    let mut tokenizer: Value = serde_json::from_str(&read).expect("JSON");
    let (begin, text) = (
        json!({"SpecialToken": {"id": "<|begin|>", "type_id": 0}}),
        json!({"Sequence": {"id": "A", "type_id": 0}}),
    );
    let behind = json!({"Sequence": {"id": "B", "type_id": 1}});
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, behind],
        "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [1], "tokens": ["<|begin|>"]}},
    });
    fs::write(path, tokenizer.to_string()).expect("written");
    place.write(
        "tokenizer_config.json",
        "{\"bos_token\": \"<|begin|>\", \"eos_token\": \"<|endoftext|>\"}",
    );
}

/// What `hlx generate` writes for each prompt of a file.
fn written(place: &Scratch, model: &str, more: &[&str]) -> Vec<String> {
    let verb = [
        "generate",
        model,
        "--prompts",
        "prompts.txt",
        "--max-tokens",
        "12",
        "--json",
    ];
    let lines = place.succeeds(&[&verb[..], more].concat());
    let text = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["text"].as_str().expect("a text").to_owned()
    };
    lines.lines().map(text).collect()
}

/// Of 29 right answers of `hlx eval --exact`, `hlx generate` gave 10: it began its prompts with a token that no
/// document had begun with, and left out the separator that stood after every input.
#[test]
fn what_eval_answers_exactly_generate_chat_and_samples_answer_too() {
    let place = trained("answers");
    let (inputs, outputs): (Vec<String>, Vec<String>) = pairs().into_iter().unzip();
    place.write("prompts.txt", &format!("\u{feff}{}\n", inputs.join("\n")));
    let found = place.succeeds(&["eval", "run", "--exact", "--json"]);
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let answered = written(&place, "run", &[]);
    let n_right = answered
        .iter()
        .zip(&outputs)
        .filter(|(found, output)| found == output)
        .count();
    assert_eq!(found["exact_answers"], json!(4 * n_right), "{answered:?}");
    assert!(n_right >= 4, "{answered:?}");
    // The run knows it, and the folders that are made of it.
    let warned = place
        .hlx(&["export", "run", "hub"])
        .output()
        .expect("starts");
    let lines = text(&warned.stderr);
    assert!(
        warned.status.success() && lines.contains("answers inputs that end with \"\\n\""),
        "{lines}"
    );
    place.succeeds(&["import", "hub", "--out", "imported"]);
    for model in ["hub", "imported"] {
        assert_eq!(written(&place, model, &[]), answered, "{model}");
        let preparation = Preparation::read(&place.join(model)).expect("reads");
        assert!(preparation.is_some_and(|it| it.answers_inputs()), "{model}");
    }
    assert_ne!(written(&place, "run", &["--raw"]), answered);
    let device = hlx_core::testing::cpu().expect("opens");
    let model = TextModel::open(&device, &place.join("run"), Opening::default()).expect("opens");
    let options = TokenGeneration::new(12, Sampling::default(), model.end_tokens.clone());
    let mut conversation = Conversation::new(&model, None).expect("without a template");
    for (input, answer) in inputs.iter().zip(&answered) {
        let said = conversation.say(input, &options, &[], &mut |_| Ok(()));
        assert_eq!(said.expect("answers"), *answer);
    }
    let line = Conversation::new(&model, Some("be kind")).expect_err("no template");
    assert!(line.to_string().starts_with("system: "), "{line}");
    let sets = [
        "--set",
        "train.eval_every=240",
        "--set",
        "data.eval_fraction=0.1",
        "--set",
        "sample.temperature=0",
        "--set",
        "sample.prompts=[\"the river\"]",
        "--set",
        "sample.max_tokens=12",
    ];
    place.succeeds(&[&["train", "config.toml", "--out", "sampled"], &sets[..]].concat());
    let metrics = fs::read_to_string(place.join("sampled/metrics.jsonl")).expect("reads");
    let sample = metrics
        .lines()
        .find(|line| line.contains("\"sample\""))
        .expect("a sample");
    let sample: Value = serde_json::from_str(sample).expect("JSON");
    assert_eq!(sample["text"], json!(written(&place, "sampled", &[])[0]));
}

#[test]
fn a_run_or_a_folder_of_before_is_prompted_as_before() {
    let place = trained("before");
    let device = hlx_core::testing::cpu().expect("opens");
    let open = |model: &str| {
        TextModel::open(&device, &place.join(model), Opening::default()).expect("opens")
    };
    let known = open("run").encode("the river").expect("encodes");
    fs::remove_file(place.join("run/preparation.json")).expect("removed");
    let model = open("run");
    let plain = model
        .tokenizer
        .encode_with_specials("the river")
        .expect("encodes");
    assert_eq!(model.encode("the river").expect("encodes"), plain);
    assert_eq!(known[..plain.len()], plain);
    let separator = model.tokenizer.encode("\n").expect("encodes");
    assert_eq!(known[plain.len()..], separator);
    // Data of before do not take over how another folder's were prepared.
    place.succeeds(&[
        "data",
        "prepare",
        "--tokenizer",
        "tokenizer.json",
        "-o",
        "old",
        "pairs.jsonl",
    ]);
    fs::remove_file(place.join("old/preparation.json")).expect("removed");
    fs::copy(
        place.join("pairs/preparation.json"),
        place.join("run/preparation.json"),
    )
    .expect("copied");
    place.succeeds(&["export", "run", "hub"]);
    let begins = [
        "--set",
        "data.path=old",
        "--set",
        "train.init_from=hub",
        "--set",
        "train.max_steps=1",
    ];
    place.succeeds(&[&["train", "config.toml", "--out", "next"], &begins[..]].concat());
    assert!(!place.join("next/preparation.json").exists());
    assert!(place.join("next/tokenizer.json").exists());
    // A damaged one is named.
    place.write("run/preparation.json", "{\"version\": 1}");
    let line = place.fails(&["generate", "run", "--prompt", "the river"]);
    assert!(
        line.contains("run/preparation.json: is no preparation: missing field"),
        "{line}"
    );
}

/// Pairs whose inputs are longer than a row, and as many that fit, prepared in `pairs`.
fn long_inputs(place: &Scratch, n_short: usize) {
    place.write("config.toml", CONFIG);
    let long = json!({"input": "a river ".repeat(9), "output": "sea"}).to_string() + "\n";
    let short = json!({"input": "a", "output": "sea"}).to_string() + "\n";
    let lines = long.repeat(12) + &short.repeat(n_short);
    place.write("pairs.jsonl", &lines);
    place.succeeds(&["data", "prepare", "-o", "pairs", "pairs.jsonl"]);
}

/// The loss over no token was 0, and the run ended as its target was reached.
#[test]
fn a_run_whose_labels_are_all_cut_off_is_refused() {
    let place = Scratch::new("no-labels");
    long_inputs(&place, 0);
    let train = [
        "train",
        "config.toml",
        "--out",
        "run",
        "--set",
        "train.target_loss=0.5",
    ];
    let line = place.fails(&train);
    assert!(
        line.contains("has no label left: its 12 records with answers are cut to 32 tokens"),
        "{line}"
    );
    assert!(!place.join("run").exists());
    // What is held out alone has none: the end of the data.
    let held_out = place.fails(&[&train[..], &["--set", "data.eval_fraction=0.3"]].concat());
    assert!(
        held_out.contains("what is trained on has no label left"),
        "{held_out}"
    );
    for rows in ["windows", "separate_windows", "packed"] {
        place.write(
            "texts.jsonl",
            "{\"prompt\": \"a river\", \"completion\": \"\"}\n",
        );
        let _ = fs::remove_dir_all(place.join("none"));
        let prepare = ["data", "prepare", "--no-eos", "-o", "none", "texts.jsonl"];
        let done = place.hlx(&prepare).output().expect("starts");
        let lines = text(&done.stderr);
        assert!(
            lines.contains("1 of 1 records hold nothing to train on"),
            "{lines}"
        );
        let sets = [
            "--set",
            "data.path=none",
            "--set",
            &format!("data.rows={rows}"),
            "--set",
            "data.length=4",
        ];
        let line = place.fails(&[&train[..], &sets].concat());
        assert!(
            line.contains("there is no loss over 0 tokens"),
            "{rows}: {line}"
        );
    }
}

#[test]
fn records_that_lose_their_labels_are_counted_and_their_batches_are_in_no_mean() {
    let place = Scratch::new("some-labels");
    long_inputs(&place, 12);
    let losses = |out: &str, log_every: &str| -> Vec<Option<f64>> {
        let every = format!("train.log_every={log_every}");
        let sets = [
            "--set",
            "train.batch_size=1",
            "--set",
            "train.max_steps=24",
            "--set",
            &every,
        ];
        let train = [&["train", "config.toml", "--out", out], &sets[..]].concat();
        let done = place.hlx(&train).output().expect("starts");
        let lines = text(&done.stderr);
        let cut = "of the 24 records of the data, 12 lose all of their labels, and count nothing";
        assert!(done.status.success() && lines.contains(cut), "{lines}");
        assert_eq!(
            lines.matches("is trained on: it has no loss").count(),
            1,
            "{lines}"
        );
        let metrics = fs::read_to_string(place.join(out).join("metrics.jsonl")).expect("reads");
        let metrics = metrics
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let train = metrics.filter(|metric: &Value| metric["kind"] == "train");
        train.map(|metric| metric["loss"].as_f64()).collect()
    };
    let each = losses("each", "1");
    let counted: Vec<f64> = each.iter().flatten().copied().collect();
    assert_eq!((each.len(), counted.len()), (24, 12));
    // Every answer has as many tokens.
    let mean = counted.iter().sum::<f64>() / 12.0;
    let all = losses("all", "24");
    assert!(
        (all[0].expect("a loss") - mean).abs() < 1e-6,
        "{all:?} {mean}"
    );
    // A folder is evaluated on what has labels, or on nothing.
    place.succeeds(&["export", "each", "hub"]);
    let eval = [
        "eval", "hub", "--data", "pairs", "--rows", "padded", "--json", "--length",
    ];
    let found = place.succeeds(&[&eval[..], &["32"]].concat());
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found["evaluation"]["n_tokens"], json!(12 * 4));
    let mut forms = Forms::new();
    add(&mut forms, "evaluation of a folder", &found);
    check(&forms);
    let line = place
        .hlx(&[&eval[..], &["1"]].concat())
        .output()
        .expect("starts");
    let lines = text(&line.stderr);
    assert!(
        !line.status.success() && lines.contains("there is no loss over 0 tokens"),
        "{lines}"
    );
}

#[test]
fn the_perplexity_of_a_text_leaves_a_byte_order_mark_out_and_an_empty_text_has_none() {
    let place = trained("mark");
    let of = |bytes: &str| {
        fs::write(place.join("a.txt"), bytes).expect("written");
        place
            .hlx(&["perplexity", "run", "--data", "a.txt", "--json"])
            .output()
            .expect("starts")
    };
    let (plain, marked) = (
        of("the river and the sea"),
        of("\u{feff}the river and the sea"),
    );
    assert!(plain.status.success());
    assert_eq!(text(&plain.stdout), text(&marked.stdout));
    let empty = text(&of("\u{feff}").stderr);
    assert!(empty.ends_with("a.txt: is empty\n"), "{empty}");
}

/// Options and keys that no document follows were dropped without a word.
#[test]
fn what_a_preparation_does_not_follow_is_named_once() {
    let place = Scratch::new("named");
    place.write(
        "a.jsonl",
        "{\"text\": \"a\", \"id\": 1}\n{\"text\": \"b\", \"id\": 2, \"source\": {}}\n",
    );
    place.write("a.txt", "a text");
    place.write(
        "t.jinja",
        "{% for m in messages %}{{ m.content }}{% endfor %}",
    );
    let warned = |out: &str, more: &[&str]| {
        let prepare = [&["data", "prepare", "-o", out], more].concat();
        let done = place.hlx(&prepare).output().expect("starts");
        assert!(done.status.success(), "{}", text(&done.stderr));
        let lines = text(&done.stderr);
        lines
            .lines()
            .map(|line| line.split_once(": ").expect("a line").1.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        warned("a", &["a.jsonl"]),
        ["a: the records' other keys are not read: `id`, `source`"]
    );
    let nothing = "no document is of the kind that it is for";
    for (option, value) in [
        ("--separator", "x"),
        ("--pair-separator", "x"),
        ("--chat-template", "t.jinja"),
    ] {
        let lines = warned(&format!("of{option}"), &["a.jsonl", option, value]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[1].ends_with(&format!("{option}: {nothing}")),
            "{lines:?}"
        );
    }
    assert!(warned("plain", &["a.txt", "--separator", "x"]).is_empty());
}
