//! Tokenizers of strangers: what makes the crate `tokenizers` panic, abort or continue without end is an error of one
//! line, and so is a text on which an expression meets its limit.

use std::time::{Duration, Instant};

use hlx_text::{Result, TextError, Tokenizer};
use serde_json::{Value, json};

const TEXT: &str = "the river's 12 lights \u{e9}\u{6771}  \n<s>xx ";

fn bpe() -> Value {
    let letters = ["t", "h", "e", " ", "x", "th", "<s>"];
    let vocab = letters
        .iter()
        .enumerate()
        .map(|(id, letter)| ((*letter).to_owned(), json!(id)));
    json!({"type": "BPE", "vocab": vocab.collect::<serde_json::Map<_, _>>(), "merges": [["t", "h"]],
           "unk_token": "x"})
}

/// A tokenizer with one part in another way.
fn with(key: &str, part: Value) -> Value {
    let special = json!({"id": 6, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                         "normalized": false, "special": true});
    let mut all = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [special],
                         "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
                         "model": bpe()});
    all[key] = part;
    all
}

/// Opens, encodes and decodes: soon, without a panic, and each error in one line.
fn outcome(json: &Value) -> Result<Vec<u32>> {
    let begun = Instant::now();
    let used = || {
        let tokenizer = Tokenizer::from_json(json.to_string().as_bytes())?;
        let ids = tokenizer.encode(TEXT)?;
        let around = tokenizer.encode_with_specials(TEXT)?;
        let n = tokenizer.vocabulary_size();
        assert!(around.iter().all(|&id| (id as usize) < n), "{around:?}");
        tokenizer.decode(&ids)?;
        tokenizer.decode_all(&around)?;
        Ok::<_, TextError>(ids)
    };
    let result = used();
    let shown: String = json.to_string().chars().take(300).collect();
    assert!(begun.elapsed() < Duration::from_secs(60), "{shown}");
    if let Err(error) = &result {
        let line = error.to_string();
        assert!(!line.contains('\n') && line.len() < 400, "{line}");
    }
    result
}

fn refused(key: &str, part: Value, reason: &str) {
    let shown: String = part.to_string().chars().take(200).collect();
    let line = outcome(&with(key, part)).expect_err(&shown).to_string();
    assert!(line.contains(reason), "{shown}: {line}");
}

#[test]
fn a_normalizer_that_replaces_or_prepends_nothing_is_refused() {
    let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    refused(
        "normalizer",
        replace(json!({"String": ""}), "a"),
        "replaces an empty text",
    );
    refused(
        "normalizer",
        replace(json!({"Regex": "a*"}), "a"),
        "replaces an empty text",
    );
    refused(
        "normalizer",
        replace(json!({"Regex": "(?=a)b?"}), "a"),
        "look-around",
    );
    refused(
        "normalizer",
        json!({"type": "Prepend", "prepend": ""}),
        "prepends an empty text",
    );
    // Told by their keys, where the type is missing.
    refused("normalizer", json!({"prepend": ""}), "");
    refused(
        "normalizer",
        json!({"pattern": {"String": ""}, "content": "a"}),
        "",
    );
    refused(
        "decoder",
        replace(json!({"String": ""}), "a"),
        "replaces an empty text",
    );
    let inner = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": ""}]});
    refused(
        "normalizer",
        json!({"type": "Sequence", "normalizers": [inner]}),
        "prepends an empty text",
    );
}

#[test]
fn normalizers_that_multiply_a_text_are_refused_before_they_do() {
    let thousand =
        json!({"type": "Replace", "pattern": {"String": "e"}, "content": "e".repeat(1000)});
    refused("normalizer", thousand, "1000 bytes of one; at most 256");
    let ten = json!({"type": "Replace", "pattern": {"Regex": "e"}, "content": "e".repeat(10)});
    refused(
        "normalizer",
        json!({"type": "Sequence", "normalizers": vec![ten; 20]}),
        "at most 256",
    );
    let bytes = json!({"type": "ByteLevel"});
    refused(
        "normalizer",
        json!({"type": "Sequence", "normalizers": vec![bytes; 40]}),
        "at most 256",
    );
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    refused(
        "pre_tokenizer",
        json!({"type": "Sequence", "pretokenizers": vec![bytes; 40]}),
        "at most 256",
    );
    let long = json!({"type": "Prepend", "prepend": "a".repeat(5000)});
    refused("normalizer", long, "5000 bytes; at most 4096");
}

fn map_of(tree_bytes: u32, tree: &[u32], texts: &[u8]) -> Value {
    let tree: Vec<u8> = tree.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let bytes = [&tree_bytes.to_le_bytes(), &tree[..], texts].concat();
    json!({"type": "Precompiled", "precompiled_charsmap": base64(&bytes)})
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for at in 0..4 {
            let digit = (word >> (18 - 6 * at)) & 63;
            let char = if at <= three.len() {
                char::from(DIGITS[digit as usize])
            } else {
                '='
            };
            text.push(char);
        }
    }
    text
}

#[test]
fn a_short_or_lying_map_of_characters_is_an_error() {
    refused(
        "normalizer",
        map_of(0, &[], b""),
        "states a tree of 0 bytes",
    );
    refused(
        "normalizer",
        map_of(4_000_000_000, &[1], b""),
        "states a tree of 4000000000 bytes in 4",
    );
    refused(
        "normalizer",
        map_of(8, &[1], b""),
        "states a tree of 8 bytes in 4",
    );
    refused(
        "normalizer",
        json!({"type": "Precompiled", "precompiled_charsmap": "AA"}),
        "precompiled_charsmap",
    );
    refused(
        "normalizer",
        json!({"type": "Precompiled", "precompiled_charsmap": "?"}),
        "is no base64",
    );
    // A tree that leads out of itself.
    refused(
        "normalizer",
        map_of(4, &[u32::MAX], b"a\0"),
        "cannot be done",
    );
    refused("normalizer", map_of(4, &[0], &[b'a'; 5000]), "at most 256");
}

#[test]
fn a_post_processor_that_names_what_is_not_there_is_refused() {
    let template = |single: Value, tokens: Value| json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": tokens});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let second = json!({"Sequence": {"id": "B", "type_id": 0}});
    let token = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let stated =
        |ids: Value, names: Value| json!({"<s>": {"id": "<s>", "ids": ids, "tokens": names}});
    refused(
        "post_processor",
        template(json!([token, text]), json!({})),
        "names the token `<s>`",
    );
    refused(
        "post_processor",
        template(json!([second]), json!({})),
        "second text",
    );
    let part = template(json!([token, text]), stated(json!([1, 2]), json!(["<s>"])));
    refused("post_processor", part, "2 ids");
    let part = template(
        json!([token, text]),
        stated(json!([4_000_000]), json!(["<s>"])),
    );
    refused(
        "post_processor",
        part,
        "puts the token 4000000 around a text: the vocabulary has 7",
    );
    let part = template(json!(vec![text.clone(); 1000]), json!({}));
    refused("post_processor", part, "1000 parts");
    let bert = json!({"type": "BertProcessing", "sep": ["x", 99], "cls": ["x", 98]});
    refused("post_processor", bert, "around a text");
    let good = template(json!([token, text]), stated(json!([6]), json!(["<s>"])));
    assert!(outcome(&with("post_processor", good)).is_ok());
}

#[test]
fn a_text_on_which_an_expression_meets_its_limit_is_an_error_and_no_other_tokens() -> Result<()> {
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    for regex in [r"(?:x+x+)+(?!x)(?<=y)", r"(x+)+\1y"] {
        for invert in [false, true] {
            let mut part = split(regex);
            part["invert"] = json!(invert);
            let file = with("pre_tokenizer", part).to_string();
            let tokenizer = Tokenizer::from_json(file.as_bytes())?;
            assert!(tokenizer.encode("th").is_ok());
            let text = "x".repeat(64);
            let line = tokenizer.encode(&text).expect_err(regex).to_string();
            assert!(
                line.starts_with("encode: ") && line.contains("limit"),
                "{line}"
            );
        }
    }
    // GPT-2's own expression goes back over a run of blanks.
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let tokenizer = Tokenizer::from_json(with("pre_tokenizer", byte_level).to_string().as_bytes())?;
    let blanks = " ".repeat(1000);
    assert!(tokenizer.encode(&format!("t{blanks}t")).is_ok());
    // Within a sequence, and after text that is read.
    let parts = json!([{"type": "WhitespaceSplit"}, split(r"(?:x+x+)+(?!x)(?<=y)")]);
    let file = with(
        "pre_tokenizer",
        json!({"type": "Sequence", "pretokenizers": parts}),
    );
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes())?;
    assert!(tokenizer.encode(&format!("th {}", "x".repeat(64))).is_err());
    Ok(())
}

#[test]
fn expressions_that_are_large_when_compiled_are_refused() {
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Removed", "invert": false});
    refused(
        "pre_tokenizer",
        split(r"(?:(?=a)a){4000000000}"),
        "counts make",
    );
    refused(
        "pre_tokenizer",
        split(r"((a{1000}){1000}){1000}(?=a)"),
        "counts make",
    );
    refused(
        "pre_tokenizer",
        split(&"a|".repeat(9000)),
        "18000 bytes; at most 4096",
    );
    refused(
        "pre_tokenizer",
        split(&format!("{}a{}", "(".repeat(1000), ")".repeat(1000))),
        "",
    );
    refused("pre_tokenizer", split("(unclosed"), "");
    // Braces that are not counts.
    let good = split(r"[\x{3040}-\x{309f}\x{4000}]{1,3}|\p{L}+|[{1}]");
    assert!(outcome(&with("pre_tokenizer", good)).is_ok());
}

#[test]
fn every_part_with_strange_values_is_an_error_or_has_tokens() {
    let sequence = |key: &str, n: usize, leaf: Value| {
        (0..n).fold(leaf, |inner, _| json!({"type": "Sequence", key: [inner]}))
    };
    let split = |pattern: Value, behavior: &str| json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false});
    let metaspace = |replacement: &str| json!({"type": "Metaspace", "replacement": replacement, "prepend_scheme": "always", "split": true});
    let mut cases = vec![
        ("pre_tokenizer", split(json!({"String": ""}), "Isolated")),
        ("pre_tokenizer", split(json!({"Regex": ""}), "Isolated")),
        (
            "pre_tokenizer",
            split(json!({"Regex": "x*"}), "MergedWithPrevious"),
        ),
        (
            "pre_tokenizer",
            split(json!({"Regex": r"(?<=t)"}), "MergedWithNext"),
        ),
        (
            "pre_tokenizer",
            split(json!({"Regex": r"\b"}), "Contiguous"),
        ),
        ("pre_tokenizer", json!({"type": "FixedLength", "length": 0})),
        (
            "pre_tokenizer",
            json!({"type": "FixedLength", "length": u64::MAX}),
        ),
        ("pre_tokenizer", metaspace("")),
        ("pre_tokenizer", metaspace("ab")),
        ("pre_tokenizer", metaspace("\u{10ffff}")),
        ("pre_tokenizer", metaspace(" ")),
        (
            "pre_tokenizer",
            sequence("pretokenizers", 50, metaspace("a")),
        ),
        (
            "pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": vec![metaspace("a"); 1000]}),
        ),
        (
            "normalizer",
            sequence("normalizers", 50, json!({"type": "NFC"})),
        ),
        (
            "normalizer",
            json!({"type": "Strip", "strip_left": true, "strip_right": true}),
        ),
        (
            "normalizer",
            json!({"type": "Replace", "pattern": {"Regex": "."}, "content": ""}),
        ),
        (
            "normalizer",
            json!({"type": "Replace", "pattern": {"Regex": "(?s:.+)"}, "content": ""}),
        ),
        (
            "decoder",
            json!({"type": "Strip", "content": "t", "start": u64::MAX, "stop": u64::MAX}),
        ),
        (
            "decoder",
            json!({"type": "Strip", "content": "x", "start": 0, "stop": 9}),
        ),
        (
            "decoder",
            json!({"type": "Strip", "content": "xx", "start": 0, "stop": 9}),
        ),
        (
            "decoder",
            json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true}),
        ),
        (
            "decoder",
            json!({"type": "WordPiece", "prefix": "", "cleanup": true}),
        ),
        ("decoder", json!({"type": "BPEDecoder", "suffix": ""})),
        ("decoder", json!({"type": "ByteFallback"})),
        ("decoder", metaspace("t")),
        (
            "truncation",
            json!({"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9}),
        ),
        (
            "truncation",
            json!({"max_length": u64::MAX, "strategy": "OnlySecond", "stride": u64::MAX}),
        ),
        (
            "padding",
            json!({"strategy": {"Fixed": 1_u64 << 60}, "direction": "Right", "pad_to_multiple_of": 0,
                           "pad_id": 0, "pad_type_id": 0, "pad_token": ""}),
        ),
        (
            "model",
            json!({"type": "Unigram", "vocab": [], "unk_id": null}),
        ),
        (
            "model",
            json!({"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 7}),
        ),
        (
            "model",
            json!({"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": null}),
        ),
        (
            "model",
            json!({"type": "Unigram", "vocab": [["", 0.0], ["a", -1e308]], "unk_id": 0}),
        ),
        (
            "model",
            json!({"type": "Unigram", "vocab": [["a".repeat(500_000), 0.0]], "unk_id": 0}),
        ),
        (
            "model",
            json!({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "no",
                         "continuing_subword_prefix": "", "max_input_chars_per_word": 100}),
        ),
        (
            "model",
            json!({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a",
                         "continuing_subword_prefix": "", "max_input_chars_per_word": 1_u64 << 40}),
        ),
        (
            "model",
            json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "no"}),
        ),
        (
            "model",
            json!({"type": "WordLevel", "vocab": {"a": 4_294_967_295_u64}, "unk_token": "a"}),
        ),
        (
            "model",
            json!({"type": "WordLevel", "vocab": {"a": 0, "b": 0}, "unk_token": "a"}),
        ),
        (
            "model",
            json!({"type": "WordLevel", "vocab": {"a": -1}, "unk_token": "a"}),
        ),
        ("model", json!({"type": "BPE", "vocab": {}, "merges": []})),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}),
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}),
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0, "\u{e9}": 1}, "merges": [["a", "\u{e9}"]],
                         "continuing_subword_prefix": "#"}),
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]],
                         "continuing_subword_prefix": "####"}),
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "no"}),
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 2.0}),
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": [["a", "a"], ["aa", "aa"]]}),
        ),
        (
            "added_tokens",
            json!([{"id": 4_294_967_295_u64, "content": "<s>", "single_word": true, "lstrip": true,
                                 "rstrip": true, "normalized": true, "special": true}]),
        ),
        (
            "added_tokens",
            json!([{"id": 1, "content": " ", "single_word": true, "lstrip": true, "rstrip": true,
                                 "normalized": true, "special": false}]),
        ),
        (
            "added_tokens",
            json!([{"id": 1, "content": "", "single_word": false, "lstrip": false, "rstrip": false,
                                 "normalized": true, "special": true}]),
        ),
        ("version", json!("2.0")),
    ];
    for key in [
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    ] {
        let others = [
            "Sequence",
            "NFKC",
            "ByteLevel",
            "Digits",
            "TemplateProcessing",
            "Fuse",
            "BPE",
        ];
        cases.extend(others.map(|name| (key, json!({"type": name}))));
        cases.extend(
            [
                json!(7),
                json!("a"),
                json!([]),
                json!({}),
                json!({"type": 3}),
            ]
            .map(|part| (key, part)),
        );
    }
    let results = cases
        .into_iter()
        .map(|(key, part)| outcome(&with(key, part)).is_ok());
    let n_ok = results.filter(|&is_ok| is_ok).count();
    assert!((10..60).contains(&n_ok), "{n_ok}");
}

#[test]
fn ids_that_are_huge_or_stated_twice_are_refused() {
    let model = |vocab: Value| json!({"type": "WordLevel", "vocab": vocab, "unk_token": "a"});
    refused(
        "model",
        model(json!({"a": 16_777_216})),
        "a token 16777216; tokens are below 16777216",
    );
    refused("model", model(json!({"a": 0, "b": 0})), "the id 0");
    let unigram = json!({"type": "Unigram", "vocab": [["a".repeat(257), 0.0]], "unk_id": 0});
    refused("model", unigram, "a piece of 257 bytes; at most 256");
}

#[test]
fn a_normalizer_that_takes_a_token_of_each_blank_ends() -> Result<()> {
    let mut file = with("normalizer", Value::Null);
    file["added_tokens"][0]["lstrip"] = json!(true);
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes())?;
    assert!(tokenizer.encode(&"t <s>".repeat(100)).is_ok());
    let line = tokenizer
        .encode(&"t <s>".repeat(100_000))
        .expect_err("slow")
        .to_string();
    assert!(line.contains("100000 tokens that strip blanks"), "{line}");
    Ok(())
}
