//! Tokenizers of GGUF files' metadata have the tokens of the `tokenizers` package and of `sentencepiece`.

use std::path::PathBuf;

use hlx_gguf::{Gguf, Metadata, NewTensor, NewTokenizer, Value, to_gguf};
use hlx_text::{Tokenizer, TokenizerFiles};

fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("../hlx-gguf/tests/fixtures/models").join(name)
}

fn metadata(name: &str) -> Metadata {
    let file = Gguf::open(&fixture(&format!("{name}.gguf"))).expect("a file");
    file.metadata().clone()
}

/// The tokenizer of metadata, and its `generation_config.json`.
fn tokenizer_of(metadata: &Metadata) -> Result<(Tokenizer, Vec<u8>), String> {
    let bytes = to_gguf(metadata, &[] as &[NewTensor], |_| Ok(Vec::new())).expect("bytes");
    let file = Gguf::from_bytes(bytes).expect("a file");
    let files = file.tokenizer_files().map_err(|error| {
        let line = error.to_string();
        assert!(!line.contains(char::is_control), "{line:?}");
        line.strip_prefix("GGUF: ").expect("the file").to_owned()
    })?;
    let named = |name: &str| {
        let found = files.iter().find(|(one, _)| *one == name);
        found.map(|(_, bytes)| bytes.clone()).unwrap_or_default()
    };
    let beside = [(
        "tokenizer_config.json".to_owned(),
        named("tokenizer_config.json"),
    )];
    let tokenizer = Tokenizer::from_files(&named("tokenizer.json"), TokenizerFiles::new(beside));
    let tokenizer = tokenizer.map_err(|error| error.to_string())?;
    Ok((tokenizer, named("generation_config.json")))
}

#[test]
fn texts_have_the_tokens_of_the_libraries_that_trained_the_vocabularies() {
    for name in ["gpt2", "llama", "llama3", "qwen2", "gemma2"] {
        let (tokenizer, _) = tokenizer_of(&metadata(name)).expect("a tokenizer");
        let expected = std::fs::read(fixture(&format!("{name}.json"))).expect("a fixture");
        let expected: serde_json::Value = serde_json::from_slice(&expected).expect("JSON");
        let texts = expected["texts"].as_array().expect("texts");
        assert!(texts.len() > 10);
        for pair in texts {
            let text = pair[0].as_str().expect("a text");
            // SentencePiece's own library has no text for its control tokens; here they are found in texts.
            if text.contains("<s>") && ["llama", "gemma2"].contains(&name) {
                continue;
            }
            let ids: Vec<u32> = serde_json::from_value(pair[1].clone()).expect("ids");
            assert_eq!(
                tokenizer.encode(text).expect("tokens"),
                ids,
                "{name} {text:?}"
            );
            // SentencePiece's sign for a blank is one in texts as well.
            let decoded = match ["llama", "gemma2"].contains(&name) {
                true => text.replace('\u{2581}', " "),
                false => text.to_owned(),
            };
            assert_eq!(
                tokenizer.decode_all(&ids).expect("a text"),
                decoded,
                "{name}"
            );
        }
    }
}

#[test]
fn special_tokens_are_found_and_put_around_texts() {
    let (tokenizer, generation) = tokenizer_of(&metadata("llama")).expect("a tokenizer");
    let specials = tokenizer.specials();
    assert_eq!((specials.bos, specials.eos), (Some(1), Some(2)));
    assert_eq!(tokenizer.text_begin(), [1]);
    let ids = tokenizer.encode("<s>a</s>").expect("tokens");
    assert_eq!((ids[0], ids[ids.len() - 1]), (1, 2));
    let generation: serde_json::Value = serde_json::from_slice(&generation).expect("JSON");
    assert_eq!(generation["eos_token_id"], 2);
    let mut metadata = metadata("qwen2");
    metadata.set("tokenizer.ggml.eot_token_id", 1_u32);
    metadata.set("tokenizer.ggml.add_eos_token", true);
    let (tokenizer, generation) = tokenizer_of(&metadata).expect("a tokenizer");
    assert!(tokenizer.text_begin().is_empty());
    assert_eq!(tokenizer.text_end(), [2]);
    let generation: serde_json::Value = serde_json::from_slice(&generation).expect("JSON");
    assert_eq!(generation["eos_token_id"], serde_json::json!([2, 1]));
}

#[test]
fn chat_templates_come_along() {
    let mut metadata = metadata("qwen2");
    let text =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    metadata.set("tokenizer.chat_template", text);
    let templates = |metadata: &Metadata| {
        let (tokenizer, _) = tokenizer_of(metadata).expect("a tokenizer");
        tokenizer.chat_templates().expect("templates").clone()
    };
    assert_eq!(templates(&metadata).default_source(), Some(text));
    metadata.set("tokenizer.chat_template.tool_use", "{{ tools }}");
    assert_eq!(templates(&metadata).default_source(), Some(text));
    assert_eq!(templates(&metadata).tools_source(), Some("{{ tools }}"));
}

/// What is said of metadata of which one value was changed.
fn refused(name: &str, key: &str, value: impl Into<Value>) -> String {
    let mut metadata = metadata(name);
    metadata.set(key, value);
    tokenizer_of(&metadata).map(|_| ()).expect_err("refused")
}

#[test]
fn what_is_not_known_of_a_tokenizer_is_refused_by_name() {
    let found = refused("gpt2", "tokenizer.ggml.model", "t5");
    assert_eq!(
        found,
        "`tokenizer.ggml.model` is t5, expected gpt2 or llama"
    );
    let found = refused("gpt2", "tokenizer.ggml.pre", "default");
    assert!(
        found.starts_with(
            "`tokenizer.ggml.pre` is default, expected one of gpt-2, phi-2, llama-bpe,"
        ),
        "{found}"
    );
    let found = refused("gpt2", "tokenizer.ggml.bos_token_id", 100_000_u32);
    assert_eq!(
        found,
        "`tokenizer.ggml.bos_token_id` is 100000, and there are 320 tokens"
    );
    let found = refused("gpt2", "tokenizer.ggml.merges", vec!["a b c".to_owned()]);
    assert_eq!(
        found,
        "`tokenizer.ggml.merges` has `a b c`, which are no two tokens that make one"
    );
    let found = refused("gpt2", "tokenizer.ggml.token_type", vec![1, 9]);
    assert_eq!(
        found,
        "`tokenizer.ggml.token_type` has 2 numbers for 320 tokens"
    );
    let found = refused("llama", "tokenizer.ggml.scores", vec![0.0_f32]);
    assert_eq!(
        found,
        "`tokenizer.ggml.scores` has 1 numbers for 420 tokens"
    );
    let found = refused(
        "llama",
        "tokenizer.ggml.tokens",
        vec!["a".to_owned(), "a".to_owned()],
    );
    assert_eq!(found, "the tokens 0 and 1 are both `a`");
}

/// Metadata of a tokenizer's own `tokenizer.json`.
fn again(tokenizer: &Tokenizer, vocabulary: usize) -> Result<Metadata, String> {
    let json = tokenizer.to_tokenizer_json();
    let specials = tokenizer.specials();
    let mut metadata = Metadata::default();
    let new = NewTokenizer {
        json: json.as_bytes(),
        vocabulary,
        bos: specials.bos,
        eos: specials.eos,
        adds_bos: !tokenizer.text_begin().is_empty(),
        ..NewTokenizer::default()
    };
    let added = new.add_to(&mut metadata);
    added.map_err(|error| error.to_string())?;
    Ok(metadata)
}

#[test]
fn tokenizers_are_written_and_read_back_with_the_same_tokens() {
    for name in ["gpt2", "llama", "llama3", "qwen2", "gemma2"] {
        let before = metadata(name);
        let (tokenizer, _) = tokenizer_of(&before).expect("a tokenizer");
        let n = tokenizer.vocabulary_size();
        let metadata = again(&tokenizer, n + 3).expect("metadata");
        for key in [
            "model",
            "merges",
            "token_type",
            "bos_token_id",
            "eos_token_id",
            "add_bos_token",
        ] {
            let key = format!("tokenizer.ggml.{key}");
            // Three tokens more; which of them are special is known of all.
            if key.ends_with("token_type") || before.get(&key).is_none() {
                continue;
            }
            assert_eq!(metadata.get(&key), before.get(&key), "{name} {key}");
        }
        let (back, _) = tokenizer_of(&metadata).expect("a tokenizer");
        assert_eq!(back.vocabulary_size(), n + 3);
        let texts = [
            "Hello world, it's 12345.\n\n  two  blanks",
            "<s>aab</s><|im_end|> \u{2581} \u{e9}\u{6771}\t",
        ];
        for text in texts {
            assert_eq!(
                back.encode(text).expect("tokens"),
                tokenizer.encode(text).expect("tokens"),
                "{name}"
            );
        }
        assert_eq!(back.text_begin(), tokenizer.text_begin());
    }
    let metadata = again(&Tokenizer::bytes(), 256).expect("metadata");
    let (back, _) = tokenizer_of(&metadata).expect("a tokenizer");
    assert_eq!(
        back.encode("hi\n\u{e9}").expect("tokens"),
        [104, 105, 10, 0xc3, 0xa9]
    );
}

#[test]
fn a_tokenizer_that_files_cannot_state_is_refused() {
    let (tokenizer, _) = tokenizer_of(&metadata("llama3")).expect("a tokenizer");
    assert_eq!(
        again(&tokenizer, 100).expect_err("too few"),
        "NewTokenizer::add_to: the tokenizer has a token 319, and the model 100 tokens"
    );
    let json = tokenizer.to_tokenizer_json().replace("{1,3}", "{1,4}");
    let new = NewTokenizer {
        json: json.as_bytes(),
        vocabulary: 320,
        ..NewTokenizer::default()
    };
    let error = new.add_to(&mut Metadata::default()).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "NewTokenizer::add_to: the tokenizer splits texts in a way that GGUF files have no name for"
    );
    let characters = Tokenizer::characters_of("the river").expect("a tokenizer");
    assert!(again(&characters, 100).is_err());
}
