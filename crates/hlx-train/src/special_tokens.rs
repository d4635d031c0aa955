//! The special tokens of a model: those that begin and end a text, and the one that fills rows. Every verb reads them
//! here, and what it writes of a model states them all.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hlx_core::warn_once;
use hlx_nn::CONFIG_FILE;
use hlx_text::{TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, Tokenizer};
use serde_json::{Map, Value, json};

use crate::companions::Companions;

/// The file of the settings of `transformers`' generation.
pub const GENERATION_CONFIG_FILE: &str = "generation_config.json";

/// Where a configuration of several models has that of the text's.
const NESTED: [&str; 3] = ["decoder", "generator", "text_config"];

/// The special tokens of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Each ends a text.
    pub ends: Vec<u32>,
    /// Fills rows.
    pub pad: Option<u32>,
}

impl SpecialTokens {
    /// Reads what a model's folder, that of a run, or a GGUF file states. As in `transformers`, the ends are those of
    /// `generation_config.json`, and of `config.json` where that file is not there. Where they state none, a text ends
    /// at the tokenizer's own end, at which `transformers` would not stop. A line is logged where a token that another
    /// file names as an end is none.
    ///
    /// # Errors
    /// A file that is no JSON object, and an `eos_token_id` that is neither a token's number nor a list of such.
    pub fn read(from: &Companions, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let object = |name: &str| from.object(name);
        let generation = object(GENERATION_CONFIG_FILE)?;
        let generation = generation.map(|all| Stated::of(&all, from, GENERATION_CONFIG_FILE));
        let config = object(CONFIG_FILE)?.map(text_of);
        let config = config.map(|all| Stated::of(&all, from, CONFIG_FILE));
        let files = Files {
            generation: generation.transpose()?,
            config: config.transpose()?,
        };
        let own = tokenizer.map(Tokenizer::specials);
        let own = own.cloned().unwrap_or_default();
        let of_files = files.all().map(|file| &file.ends);
        let ends = of_files.clone().find(|ends| !ends.is_empty()).cloned();
        let ends = ends.unwrap_or_else(|| own.eos.into_iter().collect());
        files.say_differences(from, &own, &ends);
        Ok(Self {
            bos: files.all().find_map(|file| file.bos).or(own.bos),
            pad: files.all().find_map(|file| file.pad).or(own.pad),
            ends,
        })
    }

    /// Those of a run: what the model that it begins with has, and the tokens that begin and end its data's
    /// documents.
    ///
    /// # Errors
    /// As [`SpecialTokens::read`].
    pub fn of_run(begins_with: Option<&Path>, tokenizer: &Tokenizer) -> Result<Self> {
        let own = tokenizer.specials();
        let mut all = match begins_with {
            Some(path) => Self::read(&Companions::of(path)?, None)?,
            None => Self::default(),
        };
        let eos = own.eos.filter(|end| !all.ends.contains(end));
        all.ends.extend(eos);
        all.bos = all.bos.or(own.bos);
        all.pad = all.pad.or(own.pad);
        Ok(all)
    }

    /// Logs a line for ends that a model does not have: they never come.
    pub fn warn_of_missing(&self, folder: &Path, vocabulary: usize) {
        if let Some(end) = self.ends.iter().find(|&&end| end as usize >= vocabulary) {
            warn_once(&format!(
                "{}: a text is to end at the token {end}, and the model only has {vocabulary} tokens",
                folder.display()
            ));
        }
    }

    /// The tokens as `generation_config.json` and `config.json` have them, null where there is none.
    pub fn keys(&self) -> [(&'static str, Value); 3] {
        let ends = match self.ends[..] {
            [] => Value::Null,
            [end] => json!(end),
            _ => json!(self.ends),
        };
        [
            ("bos_token_id", json!(self.bos)),
            ("eos_token_id", ends),
            ("pad_token_id", json!(self.pad)),
        ]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `generation_config.json` with these tokens, and all else that one has; the same bytes where it has them already.
    ///
    /// # Errors
    /// Bytes that are no JSON object.
    pub fn generation_config(&self, before: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let known: Map<String, Value> = match &before {
            Some(bytes) => serde_json::from_slice(bytes).context(GENERATION_CONFIG_FILE)?,
            None => Map::new(),
        };
        let mut all = known.clone();
        let stated = self
            .keys()
            .into_iter()
            .filter(|(_, value)| !value.is_null());
        for (key, value) in stated {
            // A list of one is the number.
            if known
                .get(key)
                .is_none_or(|known| token_ids(known) != token_ids(&value))
            {
                all.insert(key.to_owned(), value);
            }
        }
        match before {
            Some(bytes) if all == known => Ok(bytes),
            _ => sorted_json(all),
        }
    }
}

/// A file of an object, its keys in the order of their bytes.
pub(crate) fn sorted_json(object: Map<String, Value>) -> Result<Vec<u8>> {
    let mut file = Value::Object(object);
    file.sort_all_objects();
    Ok(serde_json::to_vec_pretty(&file)?)
}

/// What the files of a folder state; `None` of one that is not there.
struct Files {
    generation: Option<Stated>,
    config: Option<Stated>,
}

impl Files {
    /// In the order in which `transformers` looks.
    fn all(&self) -> impl Iterator<Item = &Stated> + Clone {
        self.generation.iter().chain(&self.config)
    }

    /// Logs a line for each end that a file states and that ends no text, and where `transformers` would end none.
    fn say_differences(&self, from: &Companions, own: &hlx_text::SpecialTokens, ends: &[u32]) {
        let file = |name: &str| from.named(name);
        let of = |stated: &Option<Stated>| stated.as_ref().map(|stated| stated.ends.clone());
        let of_config = of(&self.config).unwrap_or_default();
        let silent = match (of(&self.generation), of(&self.config)) {
            (Some(found), _) if found.is_empty() => Some(GENERATION_CONFIG_FILE),
            (None, Some(found)) if found.is_empty() => Some(CONFIG_FILE),
            _ => None,
        };
        if let Some(name) = silent.filter(|_| !ends.is_empty()) {
            let from = match of_config.is_empty() {
                true => TOKENIZER_FILE,
                false => CONFIG_FILE,
            };
            warn_once(&format!(
                "{}: states no `eos_token_id`, so that transformers would not end a text; it ends at {ends:?} of {from}",
                file(name)
            ));
        }
        if let Some(end) = of_config.iter().find(|end| !ends.contains(end)) {
            warn_once(&format!(
                "{}: `eos_token_id` {end} ends no text: {GENERATION_CONFIG_FILE} names {ends:?}, which count as in \
                 transformers",
                file(CONFIG_FILE)
            ));
        }
        let other = own.eos.filter(|end| !ends.contains(end));
        if let Some(end) = other.filter(|_| !own.eos_is_usual) {
            warn_once(&format!(
                "{}: `eos_token` is the token {end}, which ends no text: the model's files name {ends:?}, which \
                 count as in transformers",
                file(TOKENIZER_CONFIG_FILE)
            ));
        }
    }
}

/// What one file states.
struct Stated {
    bos: Option<u32>,
    ends: Vec<u32>,
    pad: Option<u32>,
}

impl Stated {
    fn of(all: &Value, from: &Companions, name: &str) -> Result<Self> {
        let file = from.named(name);
        let one = |key: &str| -> Option<u32> {
            let ids = token_ids(&all[key]);
            if ids.as_ref().is_none_or(|ids| ids.len() > 1) {
                let value = &all[key];
                warn_once(&format!(
                    "{file}: `{key}` is {value}, which is no token's number: there is none"
                ));
            }
            ids.filter(|ids| ids.len() == 1)?.pop()
        };
        let named = &all["eos_token_id"];
        let Some(ends) = token_ids(named) else {
            bail!("{file}: `eos_token_id` is {named}, expected a token's number or a list of them");
        };
        Ok(Self {
            bos: one("bos_token_id"),
            ends,
            pad: one("pad_token_id"),
        })
    }
}

/// The tokens of a value: a number or a list of numbers, none of null; `None` for anything else.
fn token_ids(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(several) => several.iter().map(id).collect(),
        one => id(one).map(|id| vec![id]),
    }
}

/// A configuration with what only the part of the text's model states.
fn text_of(mut config: Value) -> Value {
    let inner = NESTED
        .iter()
        .find_map(|name| config[*name].as_object().cloned());
    for (key, value) in inner.into_iter().flatten() {
        if config[&key].is_null() {
            config[&key] = value;
        }
    }
    config
}
