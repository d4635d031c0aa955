//! Pieces that come out as soon as they are clear, of a state that does not grow.

use super::super::Tokenizer;
use super::DecodeStream;

/// A tokenizer of words with a decoder.
fn of(decoder: &str, words: &[&str]) -> Tokenizer {
    let vocab: serde_json::Map<String, serde_json::Value> = words
        .iter()
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), id.into()))
        .collect();
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null,
        "decoder": serde_json::from_str::<serde_json::Value>(decoder).expect("JSON"),
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": words[0]},
    });
    Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer")
}

const FALLBACK: &str = r#"{"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
                            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}"#;

fn push(stream: &mut DecodeStream<'_>, token: u32) -> Option<String> {
    stream.push(token).expect("decodes")
}

#[test]
fn text_behind_an_invalid_byte_comes_out_with_the_next_token() {
    let tokenizer = of(FALLBACK, &["a", "<0xFF>", "<0xC3>", "<0xA9>"]);
    let mut stream = tokenizer.stream();
    assert_eq!(push(&mut stream, 0).as_deref(), Some("a"));
    assert_eq!(push(&mut stream, 1).as_deref(), Some("\u{fffd}"));
    assert_eq!(push(&mut stream, 1).as_deref(), Some("\u{fffd}"));
    assert_eq!(push(&mut stream, 0).as_deref(), Some("a"));
    // Bytes may be a character until one follows that makes all of them invalid.
    assert_eq!([2, 3].map(|token| push(&mut stream, token)), [None, None]);
    assert_eq!(push(&mut stream, 0).as_deref(), Some("\u{e9}a"));
    assert_eq!([2, 3].map(|token| push(&mut stream, token)), [None, None]);
    assert_eq!(
        push(&mut stream, 1).as_deref(),
        Some("\u{fffd}\u{fffd}\u{fffd}")
    );
    assert_eq!(stream.finish().expect("decodes"), "");
}

#[test]
fn a_text_that_ends_with_the_replacement_character_comes_out_whole() {
    let tokenizer = Tokenizer::bytes();
    let mut stream = tokenizer.stream();
    let pieces = "\u{fffd}".bytes().map(|byte| stream.push(byte.into()));
    let pieces: Vec<_> = pieces.map(|piece| piece.expect("decodes")).collect();
    assert_eq!(pieces[2].as_deref(), Some("\u{fffd}"));
    // Bytes that are invalid for ever come out one by one.
    for _ in 0..9 {
        assert_eq!(push(&mut stream, 0xff).as_deref(), Some("\u{fffd}"));
    }
}

#[test]
fn a_long_text_takes_a_bounded_state() {
    let cleanup = r#"{"type": "WordPiece", "prefix": "\#\#", "cleanup": true}"#.replace('\\', "");
    let ctc = r#"{"type": "CTC", "pad_token": "b", "word_delimiter_token": "|", "cleanup": true}"#;
    let bpe = r#"{"type": "BPEDecoder", "suffix": "</w>"}"#;
    for decoder in ["null", FALLBACK, bpe, ctc, &cleanup] {
        let tokenizer = of(decoder, &["a", "b</w>", "<0xC3>", "<0xFF>", "##c", "d"]);
        let mut stream = tokenizer.stream_after(&[0, 1]).expect("begins");
        let (mut n_out, mut held) = (0, 0);
        for number in 0..20_000_u32 {
            let token = number.wrapping_mul(2_654_435_761) >> 16;
            n_out += push(&mut stream, token % 6).map_or(0, |text| text.len());
            let super::Decoding::TextDecoders(decoders) = &stream.decoding else {
                panic!("{decoder} is not carried out token by token");
            };
            let in_decoders: usize = decoders
                .decoders
                .iter()
                .map(super::TextDecoder::n_held)
                .sum();
            held = held.max(in_decoders + stream.prompt.len());
        }
        assert!(held <= 16 && n_out > 10_000, "{decoder} {held} {n_out}");
    }
}

/// A special token is part of the text where it is shown, in its place.
#[test]
fn special_tokens_are_text_where_they_are_shown() {
    let mut json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"a": 0, "\u{c3}": 1, "\u{a9}": 2}, "merges": []},
    });
    let special = |id: u32, content: &str| {
        serde_json::json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    json["added_tokens"] = serde_json::json!([special(3, "[CALL]"), special(4, "<｜sep｜>")]);
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    let read = |shown: &[u32]| {
        let mut stream = tokenizer.stream().showing(shown);
        let tokens = [0, 3, 1, 2, 4, 0];
        let mut text: String = tokens
            .iter()
            .filter_map(|&token| push(&mut stream, token))
            .collect();
        text += &stream.finish().expect("decodes");
        text
    };
    assert_eq!(read(&[]), "a\u{e9}a");
    assert_eq!(read(&[3]), "a[CALL]\u{e9}a");
    assert_eq!(read(&[3, 4]), "a[CALL]\u{e9}<｜sep｜>a");
}
