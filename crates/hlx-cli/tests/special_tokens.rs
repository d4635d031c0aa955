//! The tokens that begin and end a text: read as `transformers` reads them, and written by every verb.

mod common;

use common::{SMALL_MODEL, Scratch, status};
use hlx_text::Tokenizer;
use hlx_train::companions::Companions;
use hlx_train::special_tokens::SpecialTokens;
use serde::Deserialize;
use serde_json::{Value, json};

/// What a folder states, and what `transformers` makes of it.
#[derive(Deserialize)]
struct Known {
    config: Value,
    generation: Option<Value>,
    bos: Option<u32>,
    ends: Vec<u32>,
    pad: Option<u32>,
}

fn read(place: &Scratch, folder: &str) -> SpecialTokens {
    SpecialTokens::read(&Companions::Folder(place.join(folder)), None).expect("reads")
}

fn object(place: &Scratch, file: &str) -> Value {
    let bytes = std::fs::read(place.join(file)).expect("a file");
    serde_json::from_slice(&bytes).expect("an object")
}

fn change(place: &Scratch, file: &str, changes: &Value) {
    let mut all = match place.join(file).is_file() {
        true => object(place, file),
        false => json!({}),
    };
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    place.write(file, &all.to_string());
}

fn call(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_text_ends_where_transformers_ends_it() {
    let known = include_str!("fixtures/special_tokens.json");
    let known: Vec<Known> = serde_json::from_str(known).expect("a fixture");
    assert_eq!(known.len(), 10);
    for (number, one) in known.iter().enumerate() {
        let place = Scratch::new("ends");
        place.write("config.json", &one.config.to_string());
        if let Some(generation) = &one.generation {
            place.write("generation_config.json", &generation.to_string());
        }
        let found = read(&place, ".");
        assert_eq!(found.ends, one.ends, "{number}");
        // A class of Gemma 3 has tokens without a statement.
        if one.config["model_type"] == "llama" {
            assert_eq!((found.bos, found.pad), (one.bos, one.pad), "{number}");
        }
    }
}

#[test]
fn an_end_that_only_a_models_configuration_states_goes_through_every_verb() {
    let place = Scratch::exported("ends-verbs", SMALL_MODEL);
    let ends = SpecialTokens {
        bos: Some(3),
        ends: vec![0],
        pad: Some(0),
    };
    let stated = json!({"bos_token_id": 3, "eos_token_id": 0, "pad_token_id": 0});
    // The run states the end of its data, and what is exported of it states it everywhere.
    for file in [
        "run/generation_config.json",
        "hub/generation_config.json",
        "hub/config.json",
    ] {
        assert_eq!(object(&place, file)["eos_token_id"], 0, "{file}");
    }
    for file in ["hub/tokenizer_config.json", "hub/special_tokens_map.json"] {
        assert_eq!(object(&place, file)["eos_token"], "<|endoftext|>", "{file}");
    }
    let class = &object(&place, "hub/tokenizer_config.json")["tokenizer_class"];
    assert_eq!(class, "PreTrainedTokenizerFast");

    // As folders circulate: `config.json` alone.
    std::fs::remove_file(place.join("hub/generation_config.json")).expect("removed");
    change(&place, "hub/config.json", &stated);
    place.succeeds(&call("import hub --out mine"));
    place.succeeds(&call("export mine again"));
    let tuned = "train config.toml --out tuned --set train.init_from=hub --set lora.rank=2";
    place.succeeds(&call(tuned));
    place.succeeds(&call("lora tuned --merge --out merged"));
    for folder in ["mine", "again", "tuned", "merged"] {
        assert_eq!(read(&place, folder), ends, "{folder}");
    }
    assert_eq!(object(&place, "again/config.json")["eos_token_id"], 0);
    // Editors put a byte-order mark in front of a file.
    let file = place.join("mine/generation_config.json");
    let text = std::fs::read_to_string(&file).expect("a file");
    place.write("mine/generation_config.json", &format!("\u{feff}{text}"));
    place.succeeds(&call("export mine marked"));
    assert_eq!(
        object(&place, "marked/generation_config.json")["eos_token_id"],
        0
    );
    place.write("mine/generation_config.json", &text);
    // A list stays one.
    change(
        &place,
        "mine/generation_config.json",
        &json!({"eos_token_id": [0, 7]}),
    );
    place.succeeds(&call("export mine list"));
    assert_eq!(
        object(&place, "list/config.json")["eos_token_id"],
        json!([0, 7])
    );
    assert_eq!(read(&place, "list").ends, [0, 7]);
}

#[test]
fn ends_that_files_state_in_two_ways_are_named_once_and_the_tokens_of_text_end_it() {
    let place = Scratch::exported("ends-twice", SMALL_MODEL);
    let ends = |generation: &Value, config: &Value, tokenizer: &Value| {
        change(&place, "hub/generation_config.json", generation);
        change(&place, "hub/config.json", config);
        change(&place, "hub/tokenizer_config.json", tokenizer);
        let line = call("generate hub --prompt light --max-tokens 3 --samples 2");
        let (code, printed, errors) = status(&place, &line);
        assert_eq!(code, 0, "{errors}");
        (printed, errors)
    };
    let own = json!({"eos_token": "<|endoftext|>"});
    let (written, silent) = ends(
        &json!({"eos_token_id": 0}),
        &json!({"eos_token_id": 0}),
        &own,
    );
    assert_eq!(silent, "");
    let (_, one) = ends(
        &json!({"eos_token_id": [5]}),
        &json!({"eos_token_id": 5}),
        &own,
    );
    assert!(
        one.contains("hub/tokenizer_config.json: `eos_token` is the token 0"),
        "{one}"
    );
    let (_, two) = ends(
        &json!({"eos_token_id": 5}),
        &json!({"eos_token_id": 6}),
        &own,
    );
    assert!(
        two.contains("hub/config.json: `eos_token_id` 6 ends no text"),
        "{two}"
    );
    assert_eq!((one.lines().count(), two.lines().count()), (1, 2), "{two}");
    let (same, none) = ends(
        &json!({"eos_token_id": null}),
        &json!({"eos_token_id": 0}),
        &own,
    );
    assert!(
        none.contains("states no `eos_token_id`") && same == written,
        "{none}"
    );
    let (_, neither) = ends(
        &json!({"eos_token_id": null}),
        &json!({"eos_token_id": null}),
        &own,
    );
    assert!(
        neither.contains("would not end a text; it ends at [0] of tokenizer.json"),
        "{neither}"
    );
    let (_, far) = ends(
        &json!({"eos_token_id": [0, 9000]}),
        &json!({"eos_token_id": 0}),
        &own,
    );
    assert!(
        far.contains("at the token 9000, and the model only has 280"),
        "{far}"
    );
    let all: Vec<u32> = (0..280).collect();
    let (ended, _) = ends(&json!({"eos_token_id": all}), &json!({}), &own);
    assert_eq!(ended, "> light\n\n\n> light\n\n\n");
    let unknown = json!({"eos_token_id": 0, "temperatur": 2, "bos_token_id": -1});
    let (_, named) = ends(&unknown, &json!({"eos_token_id": 0}), &own);
    assert!(
        named.contains("`temperatur` changes nothing here"),
        "{named}"
    );
    assert!(
        named.contains("`bos_token_id` is -1, which is no token's number"),
        "{named}"
    );
    place.write("hub/generation_config.json", "{}");
    change(
        &place,
        "hub/tokenizer_config.json",
        &json!({"eos_token": 5}),
    );
    let line = place.fails(&call("generate hub --prompt light"));
    assert!(
        line.contains("hub/tokenizer_config.json: `eos_token` is 5, expected"),
        "{line}"
    );
}

#[test]
fn runs_of_bytes_and_characters_export_tokenizers_that_others_read() {
    let place = Scratch::new("ends-own");
    place.write("config.toml", SMALL_MODEL);
    place.write("a.txt", &"the river of light \u{104}\n".repeat(60));
    for (kind, end) in [("bytes", json!(4)), ("characters", Value::Null)] {
        let prepare = format!("data prepare --tokenizer {kind} -o tokens-{kind} a.txt");
        place.succeeds(&call(&prepare));
        let train = format!("train config.toml --out {kind} --set data.path=tokens-{kind}");
        place.succeeds(&call(&train));
        place.succeeds(&call(&format!("export {kind} hub-{kind}")));
        let config = object(&place, &format!("hub-{kind}/config.json"));
        assert_eq!(config["eos_token_id"], end, "{kind}");
        assert!(
            config.get("eos_token_id").is_some(),
            "a class has an end of its own"
        );
        let own = Tokenizer::open(place.join(kind)).expect("opens");
        let file = Tokenizer::open(place.join(&format!("hub-{kind}"))).expect("opens");
        assert!(!file.to_json().contains("hlx_tokenizer"));
        let text = "the river \u{104} light\n";
        let ids = own.encode(text).expect("encodes");
        assert_eq!(file.encode(text).expect("encodes"), ids, "{kind}");
        assert_eq!(file.decode(&ids).expect("decodes"), text, "{kind}");
        assert_eq!(file.vocabulary_size(), own.vocabulary_size());
        assert_eq!(file.specials().all, own.specials().all, "{kind}");
    }
}
