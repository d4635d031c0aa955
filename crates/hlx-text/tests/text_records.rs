//! Records of a corpus as people write them, and how documents begin, compared with what transformers makes of them
//! (`fixtures/make_records.py`).

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hlx_text::{Preparation, PrepareOptions, Result, TokenShards, Tokenizer, prepare};
use serde_json::{Value, json};

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("hlx-records-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    fn options(&self, input: &Path) -> PrepareOptions {
        let name = input.file_name().expect("a name").to_string_lossy();
        let mut options =
            PrepareOptions::new(vec![input.to_owned()], self.0.join(format!("of-{name}")));
        options.threads = 1;
        options
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fixture() -> Value {
    serde_json::from_str(include_str!("fixtures/records.json")).expect("JSON")
}

fn run(options: &PrepareOptions, tokenizer: &Tokenizer) -> Result<TokenShards> {
    let _ = fs::remove_dir_all(&options.out);
    prepare(options, tokenizer, |_| ControlFlow::Continue(()))
}

fn first(shards: &TokenShards) -> Result<Vec<u32>> {
    shards.read(shards.document(0)?)
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("ids")
}

/// The line that a record is refused with.
fn refused(record: &str) -> String {
    let folder = Folder::new("refused");
    let input = folder.file("a.jsonl", format!("{record}\n"));
    let line = run(&folder.options(&input), &Tokenizer::bytes()).expect_err(record);
    let line = line.to_string();
    assert!(!line.contains('\n'), "{line}");
    let (_, reason) = line
        .split_once("a.jsonl: 1: ")
        .expect("the file and the line");
    reason.to_owned()
}

/// `hlx data prepare` left out what `tokenizer(text)` puts in front of a text, and `hlx generate` did not.
#[test]
fn documents_and_prompts_begin_as_the_tokenizer_begins_a_text() -> Result<()> {
    let folder = Folder::new("begin");
    let fixture = fixture();
    let texts = fixture["texts"].as_array().expect("texts");
    for case in fixture["tokenizers"].as_array().expect("tokenizers") {
        let (name, json) = (&case["name"], case["tokenizer"].to_string());
        let tokenizer = Tokenizer::from_json(json.as_bytes())?;
        for (text, expected) in texts.iter().zip(case["ids"].as_array().expect("ids")) {
            let text = text.as_str().expect("a text");
            let expected = ids(expected);
            assert_eq!(tokenizer.encode_with_specials(text)?, expected, "{name}");
            let begin = expected[..expected.len() - tokenizer.text_end().len()].to_vec();
            for record in [
                json!({"text": text}),
                json!({"prompt": text, "completion": "light"}),
            ] {
                let input = folder.file("a.jsonl", record.to_string());
                let options = folder.options(&input);
                let shards = run(&options, &tokenizer)?;
                let found = first(&shards)?;
                assert_eq!(found[..begin.len()], begin, "{name}: {record}");
                // What goes after a text is not put after a prompt, which is continued.
                let preparation = Preparation::read(&options.out)?.expect("written");
                assert_eq!(preparation.prompt(&tokenizer, text, false)?, begin);
                let usual = Preparation::of(&tokenizer).prompt(&tokenizer, text, false)?;
                assert_eq!(usual, begin);
            }
        }
    }
    Ok(())
}

/// A template writes the beginning itself.
#[test]
fn a_chat_has_one_beginning_where_its_template_writes_one() -> Result<()> {
    let folder = Folder::new("chat-begin");
    let fixture = fixture();
    let bos = &fixture["tokenizers"][1]["tokenizer"];
    folder.file("tokenizer.json", bos.to_string());
    let config =
        json!({"bos_token": "<s>", "eos_token": "</s>", "chat_template": fixture["template"]});
    folder.file("tokenizer_config.json", config.to_string());
    let tokenizer = Tokenizer::open(&folder.0)?;
    let input = folder.file(
        "a.jsonl",
        fixture["records"][0]["record"].as_str().expect("JSON"),
    );
    let found = first(&run(&folder.options(&input), &tokenizer)?)?;
    assert_eq!(found.iter().filter(|&&id| id == 0).count(), 1);
    assert_eq!(found[0], 0);
    Ok(())
}

#[test]
fn an_option_says_whether_documents_begin_with_the_first_token() -> Result<()> {
    let folder = Folder::new("bos-option");
    let fixture = fixture();
    let input = folder.file("a.jsonl", "{\"text\": \"the river\"}\n");
    let config = json!({"bos_token": "<s>", "eos_token": "</s>"});
    folder.file("tokenizer_config.json", config.to_string());
    for (case, begin, expected) in [
        (0, None, vec![4, 5, 1]),
        (0, Some(true), vec![0, 4, 5, 1]),
        (1, None, vec![0, 4, 5, 1]),
        (1, Some(true), vec![0, 4, 5, 1]),
        (1, Some(false), vec![4, 5, 1]),
        (2, None, vec![0, 4, 5, 1]),
    ] {
        folder.file(
            "tokenizer.json",
            fixture["tokenizers"][case]["tokenizer"].to_string(),
        );
        let tokenizer = Tokenizer::open(&folder.0)?;
        let mut options = folder.options(&input);
        options.begin = begin;
        assert_eq!(
            first(&run(&options, &tokenizer)?)?,
            expected,
            "{case} {begin:?}"
        );
        let preparation = Preparation::read(&options.out)?.expect("written");
        assert_eq!(preparation.begin, expected[..expected.len() - 3]);
    }
    Ok(())
}

/// transformers 5 goes by `tokenizer.json`, earlier ones of some classes by `tokenizer_config.json`.
#[test]
fn a_text_begins_as_the_tokenizers_file_says_whatever_its_settings_state() -> Result<()> {
    let folder = Folder::new("other-begin");
    let fixture = fixture();
    for (case, config) in [
        (0, json!({"add_bos_token": true})),
        (0, json!({"add_bos_token": false})),
        (1, json!({"add_bos_token": true})),
        (1, json!({"add_bos_token": false})),
        (1, json!({})),
    ] {
        let tokenizer = &fixture["tokenizers"][case]["tokenizer"];
        folder.file("tokenizer.json", format!("\u{feff}{tokenizer}"));
        folder.file("tokenizer_config.json", config.to_string());
        let tokenizer = Tokenizer::open(&folder.0)?;
        assert_eq!(
            tokenizer.text_begin().is_empty(),
            case == 0,
            "{case} {config}"
        );
    }
    Ok(())
}

/// `instruction`, `system`, `history`, `tools` and `documents` were dropped without a word.
#[test]
fn records_of_every_layout_are_laid_out_as_transformers_does() -> Result<()> {
    let folder = Folder::new("layouts");
    let fixture = fixture();
    folder.file(
        "tokenizer.json",
        fixture["tokenizers"][1]["tokenizer"].to_string(),
    );
    let template = fixture["template"]
        .as_str()
        .expect("a template")
        .replace("bos_token", "'<s>'");
    let template = template.replace("eos_token", "'</s>'");
    for case in fixture["records"].as_array().expect("records") {
        let input = folder.file("a.jsonl", case["record"].as_str().expect("JSON"));
        let mut options = folder.options(&input);
        options.template = Some(template.clone());
        let shards = run(&options, &Tokenizer::bytes())?;
        let found = Tokenizer::bytes().decode_all(&first(&shards)?)?;
        assert_eq!(
            found,
            case["text"].as_str().expect("a text"),
            "{}",
            case["record"]
        );
        let trained = shards.trained(0..shards.len())?;
        let tokens = first(&shards)?.into_iter().zip(trained);
        let learnt: Vec<u32> = tokens.filter(|(_, is)| *is).map(|(id, _)| id).collect();
        let learnt = Tokenizer::bytes().decode_all(&learnt)?;
        assert!(
            learnt.ends_with("yo</s>\n") || learnt.ends_with("no</s>\n"),
            "{learnt}"
        );
        assert!(!learnt.contains("<user>"), "{learnt}");
    }
    Ok(())
}

#[test]
fn records_are_pairs_without_a_template() -> Result<()> {
    let folder = Folder::new("pairs");
    for (record, expected) in [
        (
            json!({"instruction": "a", "input": "", "output": "b"}),
            "a\u{1e}b\u{4}",
        ),
        (
            json!({"instruction": "a", "input": "i", "output": "b"}),
            "a\ni\u{1e}b\u{4}",
        ),
        (
            json!({"instruction": "a", "output": "b", "system": "", "history": []}),
            "a\u{1e}b\u{4}",
        ),
        (
            json!({"input": "a", "output": "b", "id": 3}),
            "a\u{1e}b\u{4}",
        ),
        (json!({"question": "a", "answer": "b"}), "a\u{1e}b\u{4}"),
        (
            json!({"query": "a", "response": "b", "tools": null}),
            "a\u{1e}b\u{4}",
        ),
        (json!({"prompt": "a", "completion": " b"}), "a b\u{4}"),
        (json!({"text": "a", "messages": null}), "a\u{4}"),
    ] {
        let input = folder.file("a.jsonl", record.to_string());
        let shards = run(&folder.options(&input), &Tokenizer::bytes())?;
        let found = Tokenizer::bytes().decode_all(&first(&shards)?)?;
        assert_eq!(found, expected, "{record}");
    }
    Ok(())
}

#[test]
fn what_a_record_says_and_nobody_follows_is_refused_by_name() {
    let named = |record: Value, expected: &str| {
        let line = refused(&record.to_string());
        assert!(line.contains(expected), "{record}: {line}");
    };
    let hi = json!([{"role": "user", "content": "hi"}]);
    named(
        json!({"prompt": "a", "chosen": "b", "rejected": "c"}),
        "`chosen` is of records of preference",
    );
    named(
        json!({"prompt": "a", "completion": "b", "label": true}),
        "`label` is of records of preference",
    );
    named(
        json!({"text": "a", "messages": hi}),
        "has both `text` and `messages`",
    );
    named(
        json!({"messages": hi, "instruction": "a", "output": "b"}),
        "has both `messages` and `instruction`",
    );
    named(
        json!({"text": "a", "tools": [{}]}),
        "`tools` is not read with `text`",
    );
    named(
        json!({"input": "a", "output": "b", "context": "c"}),
        "`context` is not read with `input` and `output`",
    );
    named(
        json!({"instruction": "a", "output": "b", "system": "c"}),
        "`system` needs a chat template",
    );
    named(
        json!({"input": "a", "output": "b", "history": [["c", "d"]]}),
        "`history` needs a chat template",
    );
    named(
        json!({"input": "a", "output": "b", "history": "c"}),
        "`history` is a string, expected a list of pairs",
    );
    named(
        json!({"messages": hi, "tools": "x"}),
        "`tools` is a string that is no JSON",
    );
    named(
        json!({"messages": hi, "tools": {"a": 1}}),
        "`tools` is an object, expected a list of objects",
    );
    named(
        json!({"messages": hi, "chat_template_kwargs": 3}),
        "`chat_template_kwargs` is a number",
    );
    named(json!({"messages": []}), "`messages` is an empty list");
    named(
        json!({"messages": "hi"}),
        "`messages` is a string, expected a list of messages",
    );
    named(
        json!({"messages": ["hi"]}),
        "`messages[0]` is a string, expected an object",
    );
    named(
        json!({"messages": [{"content": "a"}]}),
        "`messages[0]` has no `role`",
    );
    named(
        json!({"messages": [{"from": "human", "value": "a"}]}),
        "name the list `conversations`",
    );
    named(
        json!({"messages": [{"role": "assistant", "content": "a", "weight": 0}]}),
        "`weight` 0",
    );
    named(
        json!({"conversations": [{"from": "narrator", "value": "a"}]}),
        "\"narrator\", which is not known",
    );
    named(
        json!({"conversations": [{"from": "gpt", "value": 3}]}),
        "expected a string",
    );
    named(
        json!({"conversations": [{"from": "function_call", "value": "x"}]}),
        "no JSON of a `name`",
    );
    named(json!({"text": 3}), "`text` is a number, expected a string");
    named(
        json!({"input": "a", "output": 4}),
        "`output` is a number, expected a string",
    );
    named(
        json!({"prompt": hi, "completion": "b"}),
        "`completion` is a string, expected a list of messages",
    );
    named(json!({"question": "a"}), "its keys are `question`");
    named(
        json!({"data": [{"text": "a"}]}),
        "holds its records in the list `data`",
    );
    named(json!("text"), "is a string, expected an object");
    let line = refused("{\"text\": \"a\", \"text\": \"b\"}");
    assert!(line.contains("the key `text` is there twice"), "{line}");
}
