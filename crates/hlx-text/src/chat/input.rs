//! What a template is given: messages, tools, documents and variables of the user.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Value, context};
use serde::{Deserialize, Serialize};

use super::NAME;
use crate::{Result, TextError};

/// Keys under which circulating conversations hold the reasoning of an answer; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message of a conversation. Other keys than role and content are kept for the template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(Value);

impl Message {
    /// Makes a message.
    pub fn new(role: &str, content: &str) -> Self {
        Self(context! { role => role, content => content })
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
        let value = self.0.get_attr(key).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }

    /// The message as `apply_chat_template` hands it on: without keys that are null, and with its reasoning under
    /// the names that templates read.
    fn normalized(&self, at: usize) -> Result<Value> {
        let pairs = match self.0.kind() {
            ValueKind::Map => self
                .0
                .as_object()
                .and_then(|object| object.try_iter_pairs()),
            _ => None,
        };
        let Some(pairs) = pairs else {
            let reason = format!(
                "message {at} is {}, not an object with `role` and `content`",
                self.0.kind()
            );
            return Err(TextError::argument(NAME, reason));
        };
        let mut pairs: Vec<(Value, Value)> = pairs.filter(|(_, value)| !value.is_none()).collect();
        let named = |name: &str| pairs.iter().position(|(key, _)| key.as_str() == Some(name));
        let Some(found) = REASONING.iter().find_map(|name| named(name)) else {
            return Ok(Value::from_object(Pairs(pairs)));
        };
        let reasoning = pairs[found].1.clone();
        if named("thinking").is_none() {
            pairs.insert(0, (Value::from("thinking"), reasoning.clone()));
        }
        match pairs
            .iter()
            .position(|(key, _)| key.as_str() == Some(REASONING[0]))
        {
            Some(place) => pairs[place].1 = reasoning,
            None => pairs.push((Value::from(REASONING[0]), reasoning)),
        }
        Ok(Value::from_object(Pairs(pairs)))
    }
}

/// Plain data that a template finds: any JSON. The keys of its objects keep their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChatValue(Value);

impl ChatValue {
    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    fn is_object(&self) -> bool {
        self.0.kind() == ValueKind::Map
    }
}

impl From<bool> for ChatValue {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<&str> for ChatValue {
    fn from(value: &str) -> Self {
        Self(value.into())
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
    /// Whether the beginning of an answer is put behind the messages. [`crate::ChatTemplate::render_input_for_training`]
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
    pub(super) fn values(&self) -> Result<BTreeMap<String, Value>> {
        let messages = self.messages.iter().enumerate();
        let messages = messages.map(|(at, message)| message.normalized(at));
        let messages = messages.collect::<Result<Vec<Value>>>()?;
        let mut values: BTreeMap<String, Value> = BTreeMap::new();
        for (name, value) in &self.variables {
            values.insert(name.clone(), value.0.clone());
        }
        values.insert("messages".into(), messages.into());
        values.insert("tools".into(), objects("tools", self.tools.as_deref())?);
        let documents = objects("documents", self.documents.as_deref())?;
        values.insert("documents".into(), documents);
        let prompt = self.add_generation_prompt.into();
        values.insert("add_generation_prompt".into(), prompt);
        Ok(values)
    }
}

/// A list of objects, or `None`.
fn objects(name: &str, list: Option<&[ChatValue]>) -> Result<Value> {
    let Some(list) = list else {
        return Ok(Value::from(()));
    };
    if let Some(at) = list.iter().position(|value| !value.is_object()) {
        let reason = format!(
            "`{name}` must be objects: number {at} is {}",
            list[at].0.kind()
        );
        return Err(TextError::argument(NAME, reason));
    }
    Ok(list.iter().map(|value| value.0.clone()).collect())
}

/// An object whose keys keep their order.
#[derive(Debug)]
pub(super) struct Pairs(pub Vec<(Value, Value)>);

impl Object for Pairs {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, name: &Value) -> Option<Value> {
        let mut pairs = self.0.iter();
        let found = pairs.find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(key, _)| key.clone()).collect())
    }
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
