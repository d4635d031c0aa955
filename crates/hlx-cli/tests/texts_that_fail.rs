//! Tokens without a text, prompts that cannot be answered, samples that cannot be made: nothing else is lost.

mod common;

use common::{SMALL_MODEL, Scratch, status};
use hlx_text::TokenShards;

/// A model with room for twice the tokens of its tokenizer, which draws most of them.
const PADDED: [&str; 8] = [
    "model.vocabulary=600",
    "data.eval_fraction=0.2",
    "train.eval_every=1",
    "train.checkpoint_every=1",
    "sample.prompts=[\"the river\", \"light\"]",
    "sample.temperature=4",
    "sample.max_tokens=12",
    "train.max_steps=2",
];

fn prepared(name: &str) -> Scratch {
    let place = Scratch::new(name);
    place.write("config.toml", SMALL_MODEL);
    place.prepare_tokens();
    place
}

fn train<'a>(out: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    ["train", "config.toml", "--out", out]
        .into_iter()
        .chain(sets)
        .collect()
}

#[test]
fn a_model_with_more_tokens_than_its_tokenizer_trains_samples_and_writes() {
    let place = prepared("padded-vocabulary");
    let printed = place.succeeds(&train("padded", &PADDED));
    assert_eq!(printed.matches("| the river").count(), 2, "{printed}");
    assert!(place.join("padded/checkpoints/step-000002").is_dir());
    let draws = "--temperature 4 --max-tokens 16 --seed 1";
    let write = |more: &str| {
        let line = format!("generate padded --prompt light {draws} {more}");
        place.succeeds(&line.split_whitespace().collect::<Vec<_>>())
    };
    let one = write("");
    let json = write("--json");
    let text: serde_json::Value = serde_json::from_str(&json).expect("an object");
    assert_eq!(
        text["text"].as_str().expect("a text"),
        one.trim_end_matches('\n')
    );
    assert_eq!(write("--samples 3").matches("> light\n").count(), 3);
    place.succeeds(&["eval", "padded", "--held-out", "--json"]);
}

#[test]
fn a_prompt_that_cannot_be_answered_leaves_the_others_their_texts() {
    let place = prepared("failing-prompts");
    place.succeeds(&train("run", &["train.max_steps=1"]));
    let long = "river 1 ".repeat(60);
    place.write(
        "prompts.txt",
        &format!("light\n{long}\nthe river\n{long}2\n"),
    );
    let options = [
        "generate",
        "run",
        "--prompts",
        "prompts.txt",
        "--max-tokens",
        "2",
    ];
    let (code, printed, errors) = status(&place, &options);
    assert_eq!(code, 1);
    let shown: Vec<&str> = printed
        .lines()
        .filter(|line| line.starts_with("> "))
        .collect();
    assert_eq!(shown, ["> light", "> the river"]);
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    for line in lines {
        assert!(
            line.starts_with("error: the prompt \"river 1 river 1"),
            "{line}"
        );
        assert!(line.ends_with("positions, and the model has 64"), "{line}");
    }
}

#[test]
fn a_sample_that_cannot_be_made_is_a_warning_and_training_goes_on() {
    let place = prepared("failing-samples");
    let long = format!("sample.prompts=[\"light\", \"{}\"]", "river 1 ".repeat(60));
    let mut sets = PADDED;
    sets[4] = &long;
    let (code, printed, errors) = status(&place, &train("run", &sets));
    assert_eq!(code, 0, "{errors}");
    assert_eq!(printed.matches("| light").count(), 2, "{printed}");
    assert_eq!(errors.matches("sample.prompts: ").count(), 1, "{errors}");
    assert!(place.join("run/checkpoints/step-000002").is_dir());
}

#[test]
fn shards_train_a_model_with_fewer_tokens_than_their_tokenizer_if_all_are_its_own() {
    let place = prepared("narrow-model");
    place.write("b.txt", &"zebra quiz jump\n".repeat(60));
    let prepare = "data prepare --tokenizer tokenizer.json --no-eos -o narrow b.txt";
    place.succeeds(&prepare.split(' ').collect::<Vec<_>>());
    let tokens = TokenShards::open(place.join("narrow")).expect("opens");
    let all = tokens.read(0..tokens.len()).expect("reads");
    let most = all.into_iter().max().unwrap_or(0) as usize + 1;
    assert!(most < tokens.vocabulary_size());
    let fits = format!("model.vocabulary={most}");
    let of = |vocabulary| ["data.path=narrow", vocabulary, "train.max_steps=1"];
    place.succeeds(&train("fits", &of(&fits)));
    let less = format!("model.vocabulary={}", most - 1);
    let line = place.fails(&train("less", &of(&less)));
    let expected = format!(
        "error: model.vocabulary: {} is less than the {} tokens of the data's tokenizer: ",
        most - 1,
        tokens.vocabulary_size()
    );
    assert!(line.starts_with(&expected), "{line}");
    assert!(!place.join("less").exists());
}
