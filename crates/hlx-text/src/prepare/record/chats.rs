//! The messages of records.

use std::collections::BTreeMap;

use super::fields::{Fields, attribute, expected, is_empty, is_null, is_object, items_of};
use crate::jinja::{List, Map, Value};
use crate::{ChatInput, ChatValue, Message};

/// Who speaks in ShareGPT's conversations, and the role of it.
const SPEAKERS: [(&str, &str); 11] = [
    ("human", "user"),
    ("user", "user"),
    ("gpt", "assistant"),
    ("assistant", "assistant"),
    ("chatgpt", "assistant"),
    ("model", "assistant"),
    ("bot", "assistant"),
    ("system", "system"),
    ("tool", "tool"),
    ("observation", "tool"),
    ("function_response", "tool"),
];
/// Who speaks where the assistant calls a function.
const CALL: &str = "function_call";
/// The key of other names for the template.
const VARIABLES: &str = "chat_template_kwargs";

/// What a template gets besides messages.
///
/// # Errors
/// Tools or documents that are not a list of objects, or other names that are not an object.
pub(super) fn besides(fields: &Fields) -> Result<ChatInput, String> {
    let mut variables = BTreeMap::new();
    if let Some(value) = written_value(fields, VARIABLES)? {
        let Value::Map(map) = &value else {
            return Err(expected(VARIABLES, &value, "an object"));
        };
        for (name, value) in &map.pairs {
            let name = name.as_str().unwrap_or_default().to_owned();
            variables.insert(name, ChatValue::of(value.clone()));
        }
    }
    Ok(ChatInput {
        tools: objects(fields, "tools")?,
        documents: objects(fields, "documents")?,
        variables,
        ..ChatInput::default()
    })
}

/// A list of objects, if the key is there.
fn objects(fields: &Fields, name: &str) -> Result<Option<Vec<ChatValue>>, String> {
    let Some(value) = written_value(fields, name)? else {
        return Ok(None);
    };
    match items_of(&value) {
        Some(items) if items.iter().all(is_object) => {
            Ok(Some(items.iter().cloned().map(ChatValue::of).collect()))
        }
        _ => Err(expected(name, &value, "a list of objects")),
    }
}

/// The value of a key, which may be written as a text of JSON.
fn written_value(fields: &Fields, name: &str) -> Result<Option<Value>, String> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let Some(text) = value.as_str() else {
        return Ok(Some(value.clone()));
    };
    let read: Value = serde_json::from_str(text)
        .map_err(|error| format!("`{name}` is a string that is no JSON: {error}"))?;
    let is_nothing = is_null(&read) || is_empty(&read);
    Ok(Some(read).filter(|_| !is_nothing))
}

/// The messages of a key.
///
/// # Errors
/// What is not a list of messages, or an empty one.
pub(super) fn messages(fields: &Fields, name: &str) -> Result<Vec<Message>, String> {
    let mut all = Vec::new();
    for (number, item) in items(fields, name)? {
        all.push(message(&format!("{name}[{number}]"), item)?);
    }
    Ok(all)
}

/// The objects of a list, with their numbers.
fn items<'a>(fields: &'a Fields, name: &str) -> Result<Vec<(usize, &'a Value)>, String> {
    let value = fields.get(name).unwrap_or(&Value::None);
    let Some(all) = items_of(value) else {
        return Err(expected(name, value, "a list of messages"));
    };
    let all: Vec<(usize, &Value)> = all.iter().enumerate().collect();
    match all.iter().find(|(_, item)| !is_object(item)) {
        Some((number, item)) => Err(expected(&format!("{name}[{number}]"), item, "an object")),
        None if all.is_empty() => Err(format!("`{name}` is an empty list")),
        None => Ok(all),
    }
}

fn message(place: &str, item: &Value) -> Result<Message, String> {
    let text = |key: &str| attribute(item, key).and_then(Value::as_str);
    if text("role").is_none() {
        return Err(match text("from") {
            Some(_) => format!("`{place}` has `from` and `value`: name the list `conversations`"),
            None => format!("`{place}` has no `role`"),
        });
    }
    check_weight(place, item)?;
    Ok(Message::of(item.clone()))
}

/// Some tools weigh messages, or leave some out of the loss, which nothing here does.
fn check_weight(place: &str, item: &Value) -> Result<(), String> {
    for key in ["weight", "train"] {
        let Some(value) = attribute(item, key) else {
            continue;
        };
        let is_usual = match value {
            Value::None | Value::Bool(true) | Value::Int(1) => true,
            Value::Float(weight) => *weight == 1.0,
            _ => false,
        };
        if !is_usual {
            let value = serde_json::to_string(value).unwrap_or_default();
            return Err(format!(
                "`{place}` has `{key}` {value}, and HLX trains on all that the assistant says"
            ));
        }
    }
    Ok(())
}

/// ShareGPT's conversation.
///
/// # Errors
/// What is not a list of turns, a speaker that is not known, two system messages.
pub(super) fn conversation(fields: &Fields) -> Result<ChatInput, String> {
    let mut all: Vec<Message> = system(fields)?.into_iter().collect();
    let has_system = !all.is_empty();
    for (number, item) in items(fields, "conversations")? {
        all.push(turn(&format!("conversations[{number}]"), item)?);
    }
    if has_system && all[1..].iter().any(|message| message.role() == "system") {
        return Err("has a system message in `system` and in `conversations`".to_owned());
    }
    Ok(ChatInput {
        messages: all,
        ..besides(fields)?
    })
}

fn turn(place: &str, item: &Value) -> Result<Message, String> {
    let Some(from) = attribute(item, "from").and_then(Value::as_str) else {
        return message(place, item);
    };
    check_weight(place, item)?;
    let value = attribute(item, "value").unwrap_or(&Value::None);
    let text = value
        .as_str()
        .ok_or_else(|| expected(&format!("{place}.value"), value, "a string"))?;
    if from == CALL {
        return call(place, text);
    }
    match SPEAKERS.iter().find(|(speaker, _)| *speaker == from) {
        Some((_, role)) => Ok(Message::new(role, text)),
        None => Err(format!("`{place}.from` is \"{from}\", which is not known")),
    }
}

/// A message in which the assistant calls functions: an object with a name and arguments, or a list of such.
fn call(place: &str, text: &str) -> Result<Message, String> {
    let wrong = || format!("`{place}.value` is no JSON of a `name` and `arguments`");
    let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let calls = match items_of(&value) {
        Some(calls) => calls.to_vec(),
        None => vec![value],
    };
    let calls = calls.into_iter().map(|call| {
        let is_named = |key: &str| attribute(&call, key).is_some();
        match is_named("name") && is_named("arguments") {
            true => Ok(object([
                ("type", Value::text("function")),
                ("function", call),
            ])),
            false => Err(wrong()),
        }
    });
    let calls = calls.collect::<Result<Vec<Value>, String>>()?;
    Ok(Message::of(object([
        ("role", Value::text("assistant")),
        ("content", Value::text("")),
        ("tool_calls", Value::List(List::unbounded(calls))),
    ])))
}

/// An object of these keys. What is beyond the bounds is refused when it is laid out.
fn object<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    let pairs = pairs.map(|(key, value)| (Value::text(key), value));
    Value::Map(Map::unbounded(pairs.into()))
}

fn system(fields: &Fields) -> Result<Option<Message>, String> {
    let text = fields.text_if_any("system")?;
    Ok(text.map(|text| Message::new("system", &text)))
}

/// What comes before a turn: a system message, and earlier turns as pairs of texts.
///
/// # Errors
/// A history of another form.
pub(super) fn turns(fields: &Fields) -> Result<Vec<Message>, String> {
    let mut all: Vec<Message> = system(fields)?.into_iter().collect();
    let Some(history) = fields.get("history") else {
        return Ok(all);
    };
    let wrong = || expected("history", history, "a list of pairs of texts");
    for pair in items_of(history).ok_or_else(wrong)? {
        match items_of(pair) {
            Some([said, answered]) => {
                let (said, answered) = said.as_str().zip(answered.as_str()).ok_or_else(wrong)?;
                all.extend([
                    Message::new("user", said),
                    Message::new("assistant", answered),
                ]);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(all)
}
