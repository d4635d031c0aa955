//! What a template is given: messages, tools, documents and variables of the user.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::NAME;
use super::failed;
use crate::jinja::{Map, Value};
use crate::{Result, TextError};

/// Keys under which circulating conversations hold the reasoning of an answer; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message of a conversation. Other keys than role and content are passed to the template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(Value);

impl Message {
    /// Makes a message.
    pub fn new(role: &str, content: &str) -> Self {
        let pairs = [("role", role), ("content", content)];
        let pairs = pairs.map(|(key, value)| (Value::text(key), Value::text(value)));
        // A text beyond the bounds is refused when the message is laid out.
        let map = Map::unbounded(pairs.into());
        Self(Value::Map(map))
    }

    /// Who speaks; empty where the message has no role.
    pub fn role(&self) -> String {
        self.text("role")
    }

    /// What is said, where it is a text; else empty.
    pub fn content(&self) -> String {
        self.text("content")
    }

    fn text(&self, key: &str) -> String {
        let Value::Map(map) = &self.0 else {
            return String::new();
        };
        let value = map.get_text(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    }

    /// The text that a reader of an answer sees: without what was thought, and without white space around it.
    pub(super) fn final_text(&self) -> String {
        let Value::Map(map) = &self.0 else {
            return String::new();
        };
        let text = match map.get_text("content") {
            Some(Value::List(parts)) => {
                let mut texts = parts.items.iter().rev().filter_map(|part| match part {
                    Value::Map(part) => part.get_text("text").and_then(Value::as_str),
                    _ => None,
                });
                texts.next().unwrap_or_default().to_owned()
            }
            _ => self.content(),
        };
        let said = text.rsplit("</think>").next().unwrap_or_default();
        said.trim().to_owned()
    }

    /// The message as `apply_chat_template` hands it on: without keys that are null, and with its reasoning under
    /// the names that templates read.
    fn normalized(&self, at: usize) -> Result<Value> {
        let Value::Map(map) = &self.0 else {
            let reason = format!(
                "message {at} is {}, not an object with `role` and `content`",
                self.0.type_name()
            );
            return Err(TextError::argument(NAME, reason));
        };
        let pairs = map.pairs.iter().cloned();
        let mut pairs: Vec<(Value, Value)> = pairs
            .filter(|(_, value)| !matches!(value, Value::None))
            .collect();
        let place = |pairs: &[(Value, Value)], name: &str| {
            pairs.iter().position(|(key, _)| key.as_str() == Some(name))
        };
        let found = REASONING.iter().find_map(|name| place(&pairs, name));
        if let Some(found) = found {
            let reasoning = pairs[found].1.clone();
            if place(&pairs, "thinking").is_none() {
                pairs.insert(0, (Value::text("thinking"), reasoning.clone()));
            }
            match place(&pairs, REASONING[0]) {
                Some(place) => pairs[place].1 = reasoning,
                None => pairs.push((Value::text(REASONING[0]), reasoning)),
            }
        }
        Value::map(pairs).map_err(failed)
    }
}

/// Plain data that a template finds: any JSON. The keys of its objects stay in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChatValue(Value);

impl ChatValue {
    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.0, Value::None)
    }

    fn is_object(&self) -> bool {
        matches!(self.0, Value::Map(_))
    }
}

impl From<bool> for ChatValue {
    fn from(value: bool) -> Self {
        Self(Value::Bool(value))
    }
}

impl From<&str> for ChatValue {
    fn from(value: &str) -> Self {
        Self(Value::text(value))
    }
}

/// What a template lays out. As with `apply_chat_template`, a template finds `tools` and `documents` as `None` where
/// there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatInput {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Descriptions of functions that the model may call: objects.
    pub tools: Option<Vec<ChatValue>>,
    /// Texts that the model may quote: objects.
    pub documents: Option<Vec<ChatValue>>,
    /// Whether the beginning of an answer is put after the messages. [`crate::ChatTemplate::render_input_for_training`]
    /// does not read it.
    pub add_generation_prompt: bool,
    /// Other names for the template, such as `enable_thinking`; they replace the special tokens' names.
    pub variables: BTreeMap<String, ChatValue>,
}

impl ChatInput {
    /// A conversation without tools, documents and variables.
    pub fn of(messages: &[Message]) -> Self {
        Self {
            messages: messages.to_vec(),
            ..Self::default()
        }
    }

    /// The messages, tools and documents as the template finds them.
    pub(super) fn values(&self) -> Result<Vec<(Arc<str>, Value)>> {
        let messages = self.messages.iter().enumerate();
        let messages = messages.map(|(at, message)| message.normalized(at));
        let messages = Value::list(messages.collect::<Result<_>>()?).map_err(failed)?;
        let variables = self.variables.iter();
        let mut values: Vec<(Arc<str>, Value)> = variables
            .map(|(name, value)| (name.as_str().into(), value.0.clone()))
            .collect();
        values.extend([
            ("messages".into(), messages),
            ("tools".into(), objects("tools", self.tools.as_deref())?),
            (
                "documents".into(),
                objects("documents", self.documents.as_deref())?,
            ),
            (
                "add_generation_prompt".into(),
                Value::Bool(self.add_generation_prompt),
            ),
        ]);
        Ok(values)
    }
}

/// A list of objects, or `None`.
fn objects(name: &str, list: Option<&[ChatValue]>) -> Result<Value> {
    let Some(list) = list else {
        return Ok(Value::None);
    };
    if let Some(at) = list.iter().position(|value| !value.is_object()) {
        let found = list[at].0.type_name();
        let reason = format!("`{name}` must be objects: number {at} is {found}");
        return Err(TextError::argument(NAME, reason));
    }
    Value::list(list.iter().map(|value| value.0.clone()).collect()).map_err(failed)
}

impl Message {
    /// A message of an object.
    pub(crate) fn of(object: Value) -> Self {
        Self(object)
    }
}

impl ChatValue {
    /// Plain data.
    pub(crate) fn of(value: Value) -> Self {
        Self(value)
    }
}
