//! What the settings beside a `tokenizer.json` change, and text that is decoded token by token: as `transformers`.

use std::collections::BTreeMap;
use std::fs;

use hlx_text::{Result, Tokenizer};
use serde::Deserialize;
use serde_json::Value;

const TEXT: &str = "the light </s> river";

/// A tokenizer with its settings, and what `transformers` makes of it.
#[derive(Deserialize)]
struct Known {
    base: String,
    tokenizer: Option<Value>,
    config: Value,
    older: Option<Value>,
    ends: [Option<u32>; 3],
    size: usize,
    ids: Vec<u32>,
    with_specials: Vec<u32>,
    decoded: Vec<Decoded>,
}

#[derive(Deserialize)]
struct Decoded {
    ids: Vec<u32>,
    n_prompt: usize,
    prompt: String,
    whole: String,
}

fn known() -> BTreeMap<String, Known> {
    serde_json::from_str(include_str!("fixtures/decodings.json")).expect("a fixture")
}

/// Opens the tokenizers as folders.
fn opened(test: &str) -> Vec<(String, Known, Tokenizer)> {
    let bases: Value =
        serde_json::from_str(include_str!("fixtures/tokenizers.json")).expect("a fixture");
    let folder = std::env::temp_dir().join(format!("hlx-{test}-{}", std::process::id()));
    let open = |(name, known): (String, Known)| {
        fs::create_dir_all(&folder).expect("a folder");
        let base = &bases[&known.base]["tokenizer"];
        let write = |name: &str, value: &Value| {
            fs::write(folder.join(name), value.to_string()).expect("written");
        };
        write("tokenizer.json", known.tokenizer.as_ref().unwrap_or(base));
        write("tokenizer_config.json", &known.config);
        if let Some(older) = &known.older {
            write("special_tokens_map.json", older);
        }
        let tokenizer = Tokenizer::open(&folder).expect("a tokenizer");
        fs::remove_dir_all(&folder).expect("cleared");
        (name, known, tokenizer)
    };
    known().into_iter().map(open).collect()
}

fn streamed(tokenizer: &Tokenizer, prompt: &[u32], new: &[u32]) -> Result<String> {
    let mut stream = tokenizer.stream_after(prompt)?;
    let mut text = String::new();
    for &token in new {
        text.extend(stream.push(token)?);
    }
    Ok(text + &stream.finish()?)
}

/// What a text has behind another: all behind what both have at their beginning.
fn behind<'a>(prompt: &str, whole: &'a str) -> &'a str {
    let alike = prompt.chars().zip(whole.chars());
    let alike = alike.take_while(|(a, b)| a == b);
    &whole[alike.map(|(char, _)| char.len_utf8()).sum()..]
}

#[test]
fn the_settings_beside_a_tokenizer_are_read_as_transformers_reads_them() -> Result<()> {
    let all = opened("settings");
    assert_eq!(all.len(), 27);
    for (name, known, tokenizer) in all {
        assert_eq!(tokenizer.vocabulary_size(), known.size, "{name}");
        assert_eq!(tokenizer.encode(TEXT)?, known.ids, "{name}");
        let with_specials = tokenizer.encode_with_specials(TEXT)?;
        assert_eq!(with_specials, known.with_specials, "{name}");
        let specials = tokenizer.specials();
        let [bos, eos, pad] = known.ends;
        assert_eq!((specials.bos, specials.pad), (bos, pad), "{name}");
        // Without a statement a usual name is the end.
        assert!(eos.is_none() || specials.eos == eos, "{name}");
    }
    Ok(())
}

#[test]
fn tokens_that_no_vocabulary_has_decode_to_nothing_as_in_transformers() -> Result<()> {
    for (name, known, tokenizer) in opened("decoding") {
        for one in &known.decoded {
            let prompt = &one.ids[..one.n_prompt];
            assert_eq!(tokenizer.decode(prompt)?, one.prompt, "{name} {prompt:?}");
            assert_eq!(
                tokenizer.decode(&one.ids)?,
                one.whole,
                "{name} {:?}",
                one.ids
            );
            let text = streamed(&tokenizer, prompt, &one.ids[one.n_prompt..])?;
            assert_eq!(
                text,
                behind(&one.prompt, &one.whole),
                "{name} {:?}",
                one.ids
            );
        }
    }
    for own in [Tokenizer::bytes(), Tokenizer::characters_of("abc")?] {
        assert_eq!(own.decode(&[97, 256, 4_000_000_000])?, own.decode(&[97])?);
        assert_eq!(own.decode_all(&[2, 700])?, own.decode_all(&[2])?);
    }
    Ok(())
}

#[test]
fn a_streamed_text_is_what_the_whole_has_behind_the_prompt() -> Result<()> {
    let mut state = 9_u64;
    let mut draw = |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % n
    };
    let mut all: Vec<(String, Tokenizer)> = opened("streaming")
        .into_iter()
        .map(|(name, _, tokenizer)| (name, tokenizer))
        .collect();
    all.push(("bytes".to_owned(), Tokenizer::bytes()));
    all.push((
        "characters".to_owned(),
        Tokenizer::characters_of("a b\u{e9}\u{fffd}\n")?,
    ));
    for (name, tokenizer) in &all {
        let n = tokenizer.vocabulary_size() + 2;
        for number in 0..60 {
            let length = 1 + draw(24);
            let ids: Vec<u32> = (0..length).map(|_| draw(n) as u32).collect();
            let (prompt, new) = ids.split_at(if number % 3 == 0 { 0 } else { draw(length) });
            let before = tokenizer.decode(prompt)?;
            let (Ok(whole), Ok(text)) = (tokenizer.decode(&ids), streamed(tokenizer, prompt, new))
            else {
                // The decoder that strips an end cannot strip that of nothing.
                assert_eq!(name, "stripped ends");
                continue;
            };
            assert_eq!(
                text,
                behind(&before, &whole),
                "{name} {ids:?} {}",
                prompt.len()
            );
        }
    }
    // The first blank of a continuation is there, whatever the decoder does at the beginning of a text.
    for name in ["sentencepiece", "unigram", "bytes between"] {
        let (_, tokenizer) = all.iter().find(|(one, _)| one == name).expect("there");
        let begins = |id: &u32| {
            tokenizer
                .id_to_token(*id)
                .is_some_and(|text| text.starts_with('\u{2581}'))
        };
        let ids: Vec<u32> = (0..tokenizer.vocabulary_size() as u32)
            .filter(begins)
            .take(2)
            .collect();
        let text = streamed(tokenizer, &ids[..1], &ids[1..])?;
        assert!(text.starts_with(' ') && text.len() > 1, "{name} {text:?}");
    }
    Ok(())
}

/// The bytes of tokens one after the other are the text, where no setting cleans it up: without the blank that some
/// tokenizers leave out at its beginning.
#[test]
fn the_bytes_of_tokens_are_the_bytes_of_their_text() {
    let bases: Value =
        serde_json::from_str(include_str!("fixtures/tokenizers.json")).expect("a fixture");
    let all = bases.as_object().expect("an object").iter();
    let (mut n_alike, mut n_texts) = (0, 0);
    for (name, base) in all {
        let json = base["tokenizer"].to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes()).expect("a tokenizer");
        for text in ["the light river", "caf\u{e9} \u{1f600}, 12", "a  b\nc"] {
            let Ok(ids) = tokenizer.encode(text) else {
                continue;
            };
            let whole = tokenizer.decode(&ids).expect("decodes");
            let bytes = ids.iter().filter_map(|&id| tokenizer.token_bytes(id));
            let bytes = bytes.collect::<Vec<_>>().concat();
            let joined = String::from_utf8_lossy(&bytes);
            n_texts += 1;
            n_alike += usize::from(joined.trim_start() == whole.trim_start());
            let has_specials = ids.iter().any(|&id| tokenizer.token_bytes(id).is_none());
            assert!(
                has_specials || joined.trim_start() == whole.trim_start() || name.contains("piece"),
                "{name}: {joined:?} is not {whole:?}"
            );
        }
        assert_eq!(tokenizer.token_bytes(u32::MAX), None);
    }
    assert!(n_alike * 2 > n_texts, "{n_alike} of {n_texts}");
    let bytes = Tokenizer::bytes();
    assert_eq!(
        (bytes.token_bytes(255), bytes.token_bytes(300)),
        (Some(vec![255]), None)
    );
    let characters = Tokenizer::characters_of("\u{e9}a").expect("a tokenizer");
    let id = characters.token_to_id("\u{e9}").expect("a character");
    assert_eq!(
        characters.token_bytes(id),
        Some("\u{e9}".as_bytes().to_vec())
    );
}
