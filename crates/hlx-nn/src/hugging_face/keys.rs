//! The keys of a `config.json`, of which none goes unread.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keys that change neither logits nor gradients of the models that are read here.
const WITHOUT_EFFECT: [&str; 29] = [
    "_name_or_path",
    "_sliding_window_pattern",
    "architectures",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "is_encoder_decoder",
    "label2id",
    "model_type",
    "n_ctx",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "reorder_and_upcast_attn",
];

/// An object's keys, noted as they are read.
pub(super) struct Keys {
    /// Null is as left out but for [`Keys::is_stated`].
    values: Map<String, Value>,
    read: RefCell<BTreeSet<String>>,
    /// What errors put before a key's name, such as `rope_scaling.`.
    prefix: &'static str,
}

impl Keys {
    pub fn new(values: Map<String, Value>, prefix: &'static str) -> Self {
        Self {
            values,
            read: RefCell::default(),
            prefix,
        }
    }

    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.read.borrow_mut().insert(name.to_owned());
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// Whether there is the key, be it with a null.
    pub fn is_stated(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let converted = convert(value);
        let prefix = self.prefix;
        converted
            .map(Some)
            .ok_or_else(|| format!("`{prefix}{name}` is {value}, expected {expected}"))
    }

    pub fn count(&self, name: &str) -> Result<Option<usize>, String> {
        let convert = |value: &Value| usize::try_from(value.as_u64()?).ok();
        self.typed(name, "a whole number", convert)
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        self.typed(name, "a number", Value::as_f64)
    }

    pub fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let text = value.as_str();
        let prefix = self.prefix;
        text.map(Some)
            .ok_or_else(|| format!("`{prefix}{name}` is {value}, expected a text"))
    }

    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        self.typed(name, "a list of texts", |value| {
            let texts = value.as_array()?.iter();
            texts.map(|one| Some(one.as_str()?.to_owned())).collect()
        })
    }

    pub fn counts(&self, name: &str) -> Result<Option<Vec<usize>>, String> {
        self.typed(name, "a list of whole numbers", |value| {
            let counts = value.as_array()?.iter();
            counts
                .map(|one| usize::try_from(one.as_u64()?).ok())
                .collect()
        })
    }

    pub fn object(&self, name: &str, prefix: &'static str) -> Result<Option<Keys>, String> {
        let convert = |value: &Value| Some(Keys::new(value.as_object()?.clone(), prefix));
        self.typed(name, "an object", convert)
    }

    /// The count of a key that must be there.
    pub fn need(&self, name: &str) -> Result<usize, String> {
        let prefix = self.prefix;
        self.count(name)?
            .ok_or_else(|| format!("`{prefix}{name}` is missing"))
    }

    /// The number of a key that must be there.
    pub fn need_number(&self, name: &str) -> Result<f64, String> {
        let prefix = self.prefix;
        self.number(name)?
            .ok_or_else(|| format!("`{prefix}{name}` is missing"))
    }

    pub fn need_numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        let prefix = self.prefix;
        let numbers = self.typed(name, "a list of numbers", |value| {
            value.as_array()?.iter().map(Value::as_f64).collect()
        });
        numbers?.ok_or_else(|| format!("`{prefix}{name}` is missing"))
    }

    /// Refuses any value of a key but one, which is as leaving it out.
    pub fn only(&self, name: &str, value: &Value) -> Result<(), String> {
        let prefix = self.prefix;
        match self.get(name) {
            Some(found) if found != value => Err(format!(
                "`{prefix}{name}` is {found}, and only {value} is known here"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses keys that nobody has read and that may change the result.
    pub fn finish(&self) -> Result<(), String> {
        let read = self.read.borrow();
        let harmless = |name: &str| {
            WITHOUT_EFFECT.contains(&name) || name.starts_with("summary_") || read.contains(name)
        };
        let stated = self.values.iter().filter(|(_, value)| !value.is_null());
        match stated.map(|(name, _)| name).find(|name| !harmless(name)) {
            Some(name) => {
                let prefix = self.prefix;
                Err(format!(
                    "the key `{prefix}{name}` is not known, and may change the result"
                ))
            }
            None => Ok(()),
        }
    }
}
