//! The tokenizer of a file's metadata in the form of Hugging Face's files: `tokenizer.json` and what lies beside it.

mod merges;
mod new;
mod pre;
mod tokens;

use serde_json::{Map, Value as Json, json};

pub use self::new::NewTokenizer;

use self::merges::Pair;
use self::pre::{Pre, byte_level};
use self::tokens::{Kind, Tokens};
use crate::Result;
use crate::gguf::Gguf;
use crate::metadata::Metadata;

/// What SentencePiece has in place of a blank.
const BLANK: &str = "\u{2581}";

/// A file's name and its bytes.
pub type TokenizerFile = (&'static str, Vec<u8>);

impl Gguf {
    /// The model's tokenizer as files of a Hugging Face folder: `tokenizer.json`, `tokenizer_config.json` with special
    /// tokens and chat templates, and `generation_config.json` with the tokens that end an answer. None of a file
    /// without a tokenizer.
    ///
    /// # Errors
    /// [`GgufError::File`](crate::GgufError::File): a kind of tokenizer, or a way to split texts, that is not known;
    /// metadata that are missing or contradict each other.
    pub fn tokenizer_files(&self) -> Result<Vec<TokenizerFile>> {
        files_of(self.metadata()).map_err(|reason| self.wrong(reason))
    }
}

fn files_of(metadata: &Metadata) -> Result<Vec<TokenizerFile>, String> {
    let Some(model) = metadata.text("tokenizer.ggml.model")? else {
        return Ok(Vec::new());
    };
    let is_pairs = match model {
        "none" | "no_vocab" => return Ok(Vec::new()),
        "gpt2" => true,
        "llama" => false,
        other => {
            return Err(format!(
                "`tokenizer.ggml.model` is {}, expected gpt2 or llama",
                crate::error::shown(other)
            ));
        }
    };
    let tokens = Tokens::of(metadata)?;
    let (tokenizer, adds) = match is_pairs {
        true => of_bytes(metadata, &tokens)?,
        false => of_pieces(metadata, &tokens)?,
    };
    let mut files = vec![
        ("tokenizer.json", bytes(&tokenizer)),
        (
            "tokenizer_config.json",
            bytes(&settings(metadata, &tokens, adds)?),
        ),
    ];
    if !tokens.ends.is_empty() {
        files.push(("generation_config.json", bytes(&generation(&tokens))));
    }
    Ok(files)
}

fn bytes(json: &Json) -> Vec<u8> {
    // A tree of maps and texts has a JSON form.
    serde_json::to_vec_pretty(json).unwrap_or_default()
}

/// Which tokens a text begins and ends with.
#[derive(Clone, Copy)]
struct Adds {
    bos: bool,
    eos: bool,
}

impl Adds {
    fn of(metadata: &Metadata, bos: bool) -> Result<Self, String> {
        let stated = |name: &str| metadata.truth(&format!("tokenizer.ggml.add_{name}_token"));
        Ok(Self {
            bos: stated("bos")?.unwrap_or(bos),
            eos: stated("eos")?.unwrap_or(false),
        })
    }
}

/// Byte-level pairs, as GPT-2's.
fn of_bytes(metadata: &Metadata, tokens: &Tokens<'_>) -> Result<(Json, Adds), String> {
    let name = metadata.text("tokenizer.ggml.pre")?;
    let pre = Pre::named(name.ok_or("`tokenizer.ggml.pre` is missing")?)?;
    let adds = Adds::of(metadata, pre.adds_bos)?;
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": pre.ignores_merges,
        "vocab": vocabulary(tokens), "merges": pairs(&merges::stated(metadata, tokens)?),
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added(tokens, false),
        "normalizer": pre.normalizer, "pre_tokenizer": pre.pre_tokenizer,
        "post_processor": around(tokens, adds)?, "decoder": byte_level(true), "model": model,
    });
    Ok((tokenizer, adds))
}

/// SentencePiece's pairs by scores, with bytes for characters that no token has.
fn of_pieces(metadata: &Metadata, tokens: &Tokens<'_>) -> Result<(Json, Adds), String> {
    let adds = Adds::of(metadata, true)?;
    let prefix = metadata
        .truth("tokenizer.ggml.add_space_prefix")?
        .unwrap_or(true);
    if metadata.truth("tokenizer.ggml.remove_extra_whitespaces")? == Some(true) {
        return Err(
            "`tokenizer.ggml.remove_extra_whitespaces` is true, and only false is known".into(),
        );
    }
    let (blank, text) = (json!({"String": BLANK}), json!({"String": " "}));
    let mut normalizers = vec![json!({"type": "Replace", "pattern": text, "content": BLANK})];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": blank, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": BLANK}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let unknown = tokens.token("unk_token").or_else(|| {
        let mut kinds = tokens.kinds.iter();
        kinds.position(|&kind| kind == Kind::Unknown)
    });
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": unknown.map(|id| &tokens.texts[id]),
        "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
        "byte_fallback": tokens.kinds.contains(&Kind::Byte), "ignore_merges": false,
        "vocab": vocabulary(tokens), "merges": pairs(&merges::of_scores(metadata, tokens)?),
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added(tokens, !prefix),
        "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": null,
        "post_processor": around(tokens, adds)?, "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    });
    Ok((tokenizer, adds))
}

fn vocabulary(tokens: &Tokens<'_>) -> Json {
    let ids = tokens.texts.iter().enumerate();
    Json::Object(ids.map(|(id, text)| (text.clone(), id.into())).collect())
}

fn pairs(pairs: &[Pair<'_>]) -> Json {
    pairs.iter().map(|pair| json!(pair)).collect()
}

/// The tokens that are found in a text before it is split. Those of a user are looked for in the normalized text, where
/// a blank is SentencePiece's, if nothing is put in front of it.
fn added(tokens: &Tokens<'_>, normalized: bool) -> Json {
    let is_added = |&(id, _): &(usize, &String)| {
        tokens.is_special(id) || tokens.kinds[id] == Kind::UserDefined
    };
    let found = tokens.texts.iter().enumerate().filter(is_added);
    // The `tokenizers` package has no empty ones.
    let found = found.filter(|(_, text)| !text.is_empty());
    let token = |(id, text): (usize, &String)| {
        let special = tokens.is_special(id);
        json!({
            "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": normalized && !special, "special": special,
        })
    };
    found.map(token).collect()
}

/// The post-processor that puts tokens around a text; null for none.
fn around(tokens: &Tokens<'_>, adds: Adds) -> Result<Json, String> {
    let wanted = |add: bool, name: &str| {
        let missing = || format!("a text is to have the {name}, and there is none");
        match add {
            true => tokens.token(name).map(Some).ok_or_else(missing),
            false => Ok(None),
        }
    };
    let (bos, eos) = (
        wanted(adds.bos, "bos_token")?,
        wanted(adds.eos, "eos_token")?,
    );
    if bos.is_none() && eos.is_none() {
        return Ok(Json::Null);
    }
    let special =
        |id: usize, kind: u32| json!({"SpecialToken": {"id": tokens.texts[id], "type_id": kind}});
    let sequence = |name: &str, kind: u32| {
        let text = json!({"Sequence": {"id": name, "type_id": kind}});
        let front = bos.map(|id| special(id, kind));
        let behind = eos.map(|id| special(id, kind));
        let all = front.into_iter().chain([text]).chain(behind);
        all.collect::<Vec<Json>>()
    };
    let mut known = Map::new();
    for id in bos.into_iter().chain(eos) {
        let text = &tokens.texts[id];
        known.insert(
            text.clone(),
            json!({"id": text, "ids": [id], "tokens": [text]}),
        );
    }
    let pair = [sequence("A", 0), sequence("B", 1)].concat();
    Ok(json!({
        "type": "TemplateProcessing", "single": sequence("A", 0),
        "pair": pair, "special_tokens": known,
    }))
}

/// `tokenizer_config.json`.
fn settings(metadata: &Metadata, tokens: &Tokens<'_>, adds: Adds) -> Result<Json, String> {
    let mut settings = json!({
        "add_bos_token": adds.bos, "add_eos_token": adds.eos, "clean_up_tokenization_spaces": false,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    for (name, id) in &tokens.named {
        settings[*name] = tokens.texts[*id].clone().into();
    }
    let templates = templates_of(metadata)?;
    if let [("default", template)] = &templates[..] {
        settings["chat_template"] = (*template).into();
    } else if !templates.is_empty() {
        let named = templates.iter();
        let named = named.map(|(name, template)| json!({"name": name, "template": template}));
        settings["chat_template"] = named.collect();
    }
    settings.sort_all_objects();
    Ok(settings)
}

/// The chat templates, that of the name `default` first.
fn templates_of(metadata: &Metadata) -> Result<Vec<(&str, &str)>, String> {
    const KEY: &str = "tokenizer.chat_template";
    let default = metadata.text(KEY)?.map(|template| ("default", template));
    let mut templates: Vec<_> = default.into_iter().collect();
    for (key, value) in metadata.iter() {
        let name = key
            .strip_prefix(KEY)
            .and_then(|rest| rest.strip_prefix('.'));
        if let (Some(name), Some(template)) = (name, value.as_text())
            && templates.iter().all(|(known, _)| *known != name)
        {
            templates.push((name, template));
        }
    }
    Ok(templates)
}

/// `generation_config.json`.
fn generation(tokens: &Tokens<'_>) -> Json {
    let ends = match tokens.ends[..] {
        [end] => json!(end),
        _ => json!(tokens.ends),
    };
    let mut settings = json!({"eos_token_id": ends});
    for (name, key) in [("bos_token", "bos_token_id"), ("pad_token", "pad_token_id")] {
        if let Some(id) = tokens.token(name) {
            settings[key] = id.into();
        }
    }
    settings.sort_all_objects();
    settings
}
