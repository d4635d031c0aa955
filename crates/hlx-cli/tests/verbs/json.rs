//! `--json`: which verbs have it, and the members of what they print, which other programs read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::output;
use crate::common::forms::{Forms, add, check, pinned};
use crate::common::{Scratch, copy_folder, status};

/// A call of each form, and of each that an object may have. What one makes the next may read.
const CALLS: &[&str] = &[
    "train config.toml --out watched --json --set train.max_steps=40 --set train.log_every=10 --set train.eval_every=20 \
     --set data.eval_fraction=0.2 --set train.checkpoint_every=20 --set sample.prompts=[\"one\"]",
    "train config.toml --out other --json --set train.max_steps=40 --set train.log_every=10 --set data.eval_fraction=0.2 \
     --set train.learning_rate=0.02",
    "train config.toml --plan --json",
    "train config.toml --out small --json --set train.micro_batch_size=8 --profile",
    "eval run --json",
    "eval run --exact --json",
    "generate run --prompt one --json --max-tokens 4",
    "perplexity run --data a.txt --json",
    "import hub --out imported --json",
    "export hub exported --json",
    "quantize hub --to q8_0 --out model.gguf --json",
    "logits hub --ids ids.npy --out l.npy --targets ids.npy --gradients g.safetensors --json",
    "digest run --json",
    "digest hub --json",
    "verify watched --json",
    "verify --golden --device cpu --json",
    "audit watched --seed 7 --key key --json",
    "audit watched --check watched/audit.json --key key.pub --json",
    "zoo list --json",
    "zoo train xor --json",
    "zoo verify xor --json",
    "zoo verify shakespeare-llama --quick --json",
    "data prepare a.txt -o fresh --json",
    "data verify prepared --json",
    "tokenizer train --vocab 260 a.txt -o tokenizer.json --json",
    "report watched run --out page.html --json",
    "compare watched other --json",
    "compare watched other --recompute --device cpu --json",
    "compare watched small --json",
    "list . --json",
    "watch watched --json",
    "doctor --json",
    "store list --store store --json",
    "store verify --store store --json",
    "store gc --dry-run --older-than 0 --store store --json",
    "contract shader module.spv --store store --json",
    "run product.json --store store --json",
];

/// Verbs without it, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("chat", "a conversation at a terminal"),
    ("serve", "its answers are JSON"),
    ("lora", "prints the paths that it has written"),
    ("key new", "prints two paths and the key"),
    ("key show", "prints the key alone"),
    ("zoo chat", "a conversation at a terminal"),
    ("zoo card", "prints Markdown"),
    ("data ascii-pairs", "its lines are JSON"),
    ("plot", "prints the path that it has written"),
    ("demo scalar", "an experiment to be looked at"),
    ("store put", "prints the handle alone"),
    ("store get", "writes the object"),
    ("store pin", "prints nothing"),
    ("store unpin", "prints nothing"),
    ("contract product", "prints the contract, which is JSON"),
    ("contract pipeline", "prints the contract, which is JSON"),
    ("contract put", "prints the handle alone"),
    ("contract show", "prints the contract, which is JSON"),
    ("completions", "prints a script"),
    ("man", "writes pages"),
];

/// A verb that needs a server; its members are pinned in hlx-serve (`bench/table.rs`).
const ASKS_A_SERVER: &str = "bench-serve";

/// Kinds whose objects other tests make.
const ELSEWHERE: [&str; 2] = ["evaluation of a folder", "receipts"];

/// The verbs below a line of words that have none below them.
fn leaves(place: &Scratch, words: &[String]) -> Vec<(String, bool)> {
    let line: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let help = place.succeeds(&line);
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let below = below.take_while(|line| !line.is_empty());
    let below = below.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let below: Vec<&str> = below.filter(|verb| !["", "help"].contains(verb)).collect();
    if below.is_empty() {
        // Not in another option's words.
        let options = help.lines().map(str::trim_start);
        let has = options
            .filter_map(|line| line.strip_prefix("--json"))
            .any(|rest| !rest.starts_with(" <"));
        return vec![(words.join(" "), has)];
    }
    let of = |verb: &&str| leaves(place, &[words, &[(*verb).to_owned()]].concat());
    below.iter().flat_map(of).collect()
}

#[test]
fn every_verb_that_prints_results_has_json() {
    let place = Scratch::new("verbs-json-all");
    let mut wrong = Vec::new();
    let leaves = leaves(&place, &[]);
    for (verb, has) in &leaves {
        let reason = WITHOUT.iter().find(|(without, _)| without == verb);
        let is_called = verb == ASKS_A_SERVER
            || CALLS
                .iter()
                .any(|call| call.starts_with(&format!("{verb} ")));
        if *has == reason.is_some() || *has != is_called {
            wrong.push(format!(
                "{verb}: --json {has}, called {is_called}, without it {reason:?}"
            ));
        }
    }
    for (verb, _) in WITHOUT {
        if !leaves.iter().any(|(leaf, _)| leaf == verb) {
            wrong.push(format!("{verb}: is no verb"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(leaves.len() > 40, "{leaves:?}");
}

/// A folder with what the calls read.
fn place() -> Scratch {
    let place = output::place();
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zoo");
    copy_folder(&zoo, &place.join("zoo"));
    place
}

#[test]
fn no_member_of_what_verbs_print_is_lost_or_renamed() {
    let place = place();
    let mut forms = Forms::new();
    for call in CALLS {
        let arguments: Vec<&str> = call.split_whitespace().collect();
        let (code, stdout, stderr) = status(&place, &arguments);
        assert!(
            code == 0 || call.starts_with("compare watched"),
            "{call}: {stderr}"
        );
        let values = serde_json::Deserializer::from_str(&stdout).into_iter::<Value>();
        let values: Vec<Value> = values.collect::<Result<_, _>>().expect(call);
        assert!(!values.is_empty(), "{call}: {stderr}");
        for value in values {
            let kind = value["kind"].as_str().unwrap_or(arguments[0]).to_owned();
            let one = if value.is_array() { &value[0] } else { &value };
            add(&mut forms, &kind, one);
        }
    }
    place.succeeds(&["doctor", "--report", "device.json", "--device", "cpu"]);
    let report = fs::read_to_string(place.join("device.json")).expect("reads");
    add(
        &mut forms,
        "doctor --report",
        &serde_json::from_str(&report).expect("JSON"),
    );
    check(&forms);
    let found: BTreeSet<&str> = forms.keys().map(String::as_str).chain(ELSEWHERE).collect();
    let pinned = pinned();
    assert_eq!(found, pinned.keys().map(String::as_str).collect());
}

/// The words in back quotes of a line.
fn quoted(line: &str) -> BTreeSet<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_page_names_every_member() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = fs::read_to_string(page).expect("reads");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let mut wrong = Vec::new();
    for (kind, paths) in pinned() {
        let of_kind = |row: &&&str| {
            let cell = row.split('|').nth(2).unwrap_or_default();
            quoted(cell).contains(kind.split(" of ").next().unwrap_or_default())
        };
        let words: BTreeSet<&str> = rows
            .iter()
            .filter(of_kind)
            .flat_map(|row| quoted(row))
            .collect();
        if words.is_empty() {
            wrong.push(format!("{kind}: has no row"));
            continue;
        }
        // What lies deeper is said where the file is described that has it.
        for word in paths.iter().flat_map(|path| path.split('.').take(2)) {
            let word = word.trim_end_matches("[]");
            if word != "kind" && word != "*" && !words.contains(word) {
                wrong.push(format!("{kind}: {word}"));
            }
        }
    }
    wrong.dedup();
    assert!(
        wrong.is_empty(),
        "docs/json.md does not name\n{}",
        wrong.join("\n")
    );
}
