//! Tokenizers: the tokens of other programs, a trained one, decoding, bad files.

use std::fs;
use std::ops::ControlFlow;

use hlx_text::{
    BpeTrainer, Result, ScanOptions, Tokenizer, TokenizerFiles, WordCounts, characters_of_files,
    count_words,
};
use serde::Deserialize;
use serde_json::Value;

const CORPUS: &str = include_str!("fixtures/corpus.txt");

/// A text and what the Python package makes of it.
#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    with_specials: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Known {
    tokenizer: Value,
    cases: Vec<Case>,
}

fn known() -> std::collections::BTreeMap<String, Known> {
    serde_json::from_str(include_str!("fixtures/tokenizers.json")).expect("a fixture")
}

fn open(known: &Known) -> Tokenizer {
    Tokenizer::from_json(known.tokenizer.to_string().as_bytes()).expect("a tokenizer")
}

fn fails(json: &str) -> String {
    let line = Tokenizer::from_json(json.as_bytes()).expect_err("must fail");
    let line = line.to_string();
    assert!(!line.contains('\n'), "{line}");
    assert!(
        line.starts_with("tokenizer.json: is no tokenizer: "),
        "{line}"
    );
    line
}

#[test]
fn every_kind_of_tokenizer_has_the_tokens_of_the_python_package() -> Result<()> {
    let known = known();
    assert_eq!(known.len(), 7);
    for (name, known) in known {
        let tokenizer = open(&known);
        for case in &known.cases {
            let text = &case.text;
            assert_eq!(tokenizer.encode(text)?, case.ids, "{name} {text:?}");
            let with_specials = tokenizer.encode_with_specials(text)?;
            assert_eq!(with_specials, case.with_specials, "{name} {text:?}");
            assert_eq!(
                tokenizer.decode(&case.ids)?,
                case.decoded,
                "{name} {text:?}"
            );
            // Token by token the same text comes out, except for characters that are cut.
            let mut stream = tokenizer.stream();
            let mut streamed = String::new();
            for &id in &case.ids {
                streamed.extend(stream.push(id)?);
            }
            streamed += &stream.finish()?;
            assert_eq!(streamed, case.decoded, "{name} {text:?}");
        }
        let lines = CORPUS.lines().map(|line| tokenizer.encode(line));
        lines.collect::<Result<Vec<_>>>()?;
        let again = Tokenizer::from_json(tokenizer.to_json().as_bytes())?;
        assert_eq!(again.digest(), tokenizer.digest());
    }
    Ok(())
}

#[test]
fn the_fast_path_has_the_tokens_of_the_crate() -> Result<()> {
    for (name, known) in known() {
        if !["gpt2", "llama3", "qwen2"].contains(&name.as_str()) {
            continue;
        }
        let tokenizer = open(&known);
        let json = known.tokenizer.to_string();
        let other: tokenizers::Tokenizer = json.parse().expect("a tokenizer");
        let mut text = CORPUS.repeat(3);
        text += "\n\n  \t end'S 'll x\u{17f} \r\n 99999 \u{661}\u{662}\u{663}\u{664} ";
        text += &"z".repeat(2000);
        let ascii: String = text.chars().filter(char::is_ascii).collect();
        for text in [&text[..], &ascii, &ascii[..ascii.len() - 2000], ""] {
            for specials in [false, true] {
                let expected = other.encode_fast(text, specials).expect("tokens");
                let found = match specials {
                    true => tokenizer.encode_with_specials(text)?,
                    false => tokenizer.encode(text)?,
                };
                assert_eq!(found, expected.get_ids(), "{name} {specials}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_trained_tokenizer_is_the_python_packages() -> Result<()> {
    let known = known().remove("gpt2").expect("gpt2");
    let mut counts = WordCounts::default();
    // Counted in parts, in another order.
    let (first, second) = CORPUS.split_at(CORPUS.find("\n").expect("a line"));
    let mut part = WordCounts::default();
    part.add(first);
    counts.add(second);
    counts.join(part);
    let trainer = BpeTrainer {
        vocabulary_size: 420,
        ..BpeTrainer::default()
    };
    let mut steps = 0;
    let trained = trainer.train(counts, |have, wanted| {
        assert!(have <= wanted);
        steps += 1;
        ControlFlow::Continue(())
    })?;
    assert!(steps > 100);
    let found: Value = serde_json::from_str(trained.to_json()).expect("JSON");
    for key in [
        "version",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
    ] {
        assert_eq!(found[key], known.tokenizer[key], "{key}");
    }
    let merges = |value: &Value| value["model"]["merges"].as_array().expect("merges").clone();
    assert_eq!(merges(&found), merges(&known.tokenizer));
    assert_eq!(found["model"], known.tokenizer["model"]);
    assert_eq!(trained.specials().eos, Some(0));
    assert_eq!(trained.vocabulary_size(), 420);
    for case in &known.cases {
        assert_eq!(trained.encode(&case.text)?, case.ids);
    }
    Ok(())
}

#[test]
fn threads_and_files_change_no_bit_of_a_trained_tokenizer() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("hlx-train-bpe-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let lines: Vec<String> = (0..40)
        .map(|number| format!("{}{number} times\n", CORPUS.repeat(6)))
        .collect();
    fs::write(folder.join("a.txt"), lines.concat()).expect("written");
    fs::write(folder.join("b.jsonl"), "{\"text\": \"the river\"}\n").expect("written");
    let trained = |threads| {
        let options = ScanOptions {
            threads,
            ..ScanOptions::new(vec![folder.clone()])
        };
        let mut bytes = 0;
        let counts = count_words(&options, |_, n| {
            bytes = n;
            ControlFlow::Continue(())
        })?;
        assert!(bytes > 2_000_000);
        let trainer = BpeTrainer {
            vocabulary_size: 600,
            ..BpeTrainer::default()
        };
        let characters = characters_of_files(&options, |_, _| ControlFlow::Continue(()))?;
        let trained = trainer.train(counts, |_, _| ControlFlow::Continue(()))?;
        Ok([
            trained.to_json().to_owned(),
            characters.to_json().to_owned(),
        ])
    };
    let alone = trained(1)?;
    assert_eq!(trained(3)?, alone);
    let characters = Tokenizer::from_json(alone[1].as_bytes())?;
    assert_eq!(
        characters.decode(&characters.encode("the 東京\n")?)?,
        "the 東京\n"
    );
    fs::remove_dir_all(folder).expect("cleared");
    Ok(())
}

#[test]
fn bytes_and_characters_are_tokens_too() -> Result<()> {
    let bytes = Tokenizer::bytes();
    assert_eq!(bytes.vocabulary_size(), 256);
    assert_eq!(bytes.encode("é")?, [0xc3, 0xa9]);
    assert_eq!(bytes.decode(&[0xc3, 0xa9, 0x1e, 0x62, 4])?, "éb");
    assert_eq!(bytes.decode_all(&[0x62, 4])?, "b\u{4}");
    assert_eq!(bytes.decode(&[0xff])?, "\u{fffd}");
    assert_eq!(
        (bytes.token_to_id("a"), bytes.token_to_id("é")),
        (Some(97), None)
    );
    let characters = Tokenizer::characters_of("hello é")?;
    assert_eq!(characters.encode("é oh")?, [5, 0, 4, 2]);
    assert_eq!(characters.id_to_token(5).as_deref(), Some("é"));
    assert_eq!(characters.token_to_id("h"), Some(2));
    let line = characters.encode("ok").expect_err("no k").to_string();
    assert_eq!(
        line,
        "encode: the character 'k' at byte 1 is not in the vocabulary"
    );
    for tokenizer in [bytes, characters] {
        let again = Tokenizer::from_json(tokenizer.to_json().as_bytes())?;
        assert_eq!(again.to_json(), tokenizer.to_json());
        assert_eq!(again.encode("hello")?, tokenizer.encode("hello")?);
    }
    assert!(Tokenizer::characters_of("").is_err());
    Ok(())
}

#[test]
fn a_folder_states_special_tokens_and_a_chat_template() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("hlx-tokenizer-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
    let known = known().remove("sentencepiece").expect("sentencepiece");
    write("tokenizer.json", &known.tokenizer.to_string());
    let alone = Tokenizer::open(&folder)?;
    assert_eq!(alone.specials().all, [0, 1, 2]);
    assert_eq!(
        (alone.specials().bos, alone.specials().eos),
        (None, Some(2))
    );
    assert_eq!(alone.chat_template(), None);
    let config = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\", \"pad_token\": null, \
                  \"chat_template\": \"{{ messages }}\"}";
    write("tokenizer_config.json", config);
    let configured = Tokenizer::open(folder.join("tokenizer.json"))?;
    assert_eq!(
        (configured.specials().bos, configured.specials().eos),
        (Some(1), Some(2))
    );
    assert_eq!(configured.chat_template(), Some("{{ messages }}"));
    write("chat_template.jinja", "own");
    let whole = Tokenizer::open(&folder)?;
    assert_eq!(whole.chat_template(), Some("own"));
    // What it keeps makes the same tokenizer without the folder.
    let files = whole.files().expect("files").files();
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
    let files = TokenizerFiles::new(files);
    let again = Tokenizer::from_files(whole.to_json().as_bytes(), files)?;
    assert_eq!(again.specials(), whole.specials());
    assert_eq!(again.chat_templates(), whole.chat_templates());
    assert_eq!(again.digest(), whole.digest());
    let wrong = [("tokenizer_config.json".to_owned(), b"{".to_vec())];
    let wrong = Tokenizer::from_files(whole.to_json().as_bytes(), TokenizerFiles::new(wrong));
    let line = wrong.expect_err("no JSON").to_string();
    assert!(line.starts_with("tokenizer_config.json: EOF"), "{line}");
    write("tokenizer_config.json", "{");
    let line = Tokenizer::open(&folder).expect_err("no JSON").to_string();
    assert!(line.contains("tokenizer_config.json: EOF"), "{line}");
    fs::remove_dir_all(&folder).expect("cleared");
    let line = Tokenizer::open(&folder).expect_err("missing").to_string();
    assert!(line.contains("No such file"), "{line}");
    Ok(())
}

#[test]
fn broken_tokenizers_are_refused_in_one_line() {
    fails("");
    fails("{}");
    fails("[1, 2]");
    let whole = known().remove("gpt2").expect("gpt2").tokenizer;
    let text = whole.to_string();
    fails(&text[..text.len() / 2]);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = whole.clone();
        change(&mut value);
        fails(&value.to_string())
    };
    changed(&|value| value["model"]["type"] = "Markov".into());
    changed(&|value| value["model"]["vocab"] = Value::Null);
    changed(&|value| value["model"]["merges"][0] = "one two three".into());
    changed(&|value| value["model"]["merges"][0] = serde_json::json!(["no", "such"]));
    changed(&|value| value["pre_tokenizer"] = serde_json::json!({"type": "Cutter"}));
    let empty =
        serde_json::json!({"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}});
    assert!(fails(&empty.to_string()).ends_with("the vocabulary is empty"));
    let wrong = |trainer: BpeTrainer, text: &str| {
        let mut counts = WordCounts::default();
        counts.add(text);
        let failed = trainer.train(counts, |_, _| ControlFlow::Continue(()));
        failed.expect_err("must fail").to_string()
    };
    let of = |vocabulary_size, specials: &[&str]| BpeTrainer {
        vocabulary_size,
        special_tokens: specials.iter().map(ToString::to_string).collect(),
        ..BpeTrainer::default()
    };
    let small =
        "train: a vocabulary of 256 tokens is too small: the bytes and the special tokens are 257";
    assert_eq!(wrong(of(256, &["<e>"]), "a"), small);
    assert!(wrong(of(300, &["<e>", "<e>"]), "a").ends_with("`<e>` is listed twice"));
    assert!(wrong(of(300, &["e"]), "a").ends_with("has less than two characters"));
    assert_eq!(wrong(of(300, &[]), ""), "train: the texts hold no words");
}
