//! The messages of records.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::fields::{Fields, expected, is_list, is_object};
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
/// Tools or documents that are no list of objects, or other names that are no object.
pub(super) fn besides(fields: &Fields) -> Result<ChatInput, String> {
    let mut variables = BTreeMap::new();
    if let Some(value) = written_value(fields, VARIABLES)? {
        let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
        let pairs = pairs.filter(|_| is_object(&value));
        let pairs = pairs.ok_or_else(|| expected(VARIABLES, &value, "an object"))?;
        variables.extend(pairs.map(|(name, value)| (name.to_string(), ChatValue::of(value))));
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
    let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
    match is_list(&value) && items.iter().all(is_object) {
        true => Ok(Some(items.into_iter().map(ChatValue::of).collect())),
        false => Err(expected(name, &value, "a list of objects")),
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
    let is_nothing = read.is_none() || read.len() == Some(0);
    Ok(Some(read).filter(|_| !is_nothing))
}

/// The messages of a key.
///
/// # Errors
/// What is no list of messages, or an empty one.
pub(super) fn messages(fields: &Fields, name: &str) -> Result<Vec<Message>, String> {
    let mut all = Vec::new();
    for (number, item) in items(fields, name)? {
        all.push(message(&format!("{name}[{number}]"), &item)?);
    }
    Ok(all)
}

/// The objects of a list, with their numbers.
fn items(fields: &Fields, name: &str) -> Result<Vec<(usize, Value)>, String> {
    let value = fields.get(name).cloned().unwrap_or_default();
    if !is_list(&value) {
        return Err(expected(name, &value, "a list of messages"));
    }
    let all: Vec<(usize, Value)> = value.try_iter().into_iter().flatten().enumerate().collect();
    match all.iter().find(|(_, item)| !is_object(item)) {
        Some((number, item)) => Err(expected(&format!("{name}[{number}]"), item, "an object")),
        None if all.is_empty() => Err(format!("`{name}` is an empty list")),
        None => Ok(all),
    }
}

fn message(place: &str, item: &Value) -> Result<Message, String> {
    let get = |key: &str| item.get_attr(key).unwrap_or_default();
    if get("role").as_str().is_none() {
        return Err(match get("from").as_str() {
            Some(_) => format!("`{place}` has `from` and `value`: name the list `conversations`"),
            None => format!("`{place}` has no `role`"),
        });
    }
    check_weight(place, item)?;
    Ok(Message::of(item.clone()))
}

/// Some tools weigh messages, or leave some out of the loss, which nothing here does.
fn check_weight(place: &str, item: &Value) -> Result<(), String> {
    for (key, usual) in [("weight", Value::from(1)), ("train", Value::from(true))] {
        let value = item.get_attr(key).unwrap_or_default();
        if !value.is_undefined() && !value.is_none() && value != usual {
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
/// What is no list of turns, a speaker that is not known, two system messages.
pub(super) fn conversation(fields: &Fields) -> Result<ChatInput, String> {
    let mut all: Vec<Message> = system(fields)?.into_iter().collect();
    let has_system = !all.is_empty();
    for (number, item) in items(fields, "conversations")? {
        all.push(turn(&format!("conversations[{number}]"), &item)?);
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
    let get = |key: &str| item.get_attr(key).unwrap_or_default();
    let (from, value) = (get("from"), get("value"));
    let Some(from) = from.as_str() else {
        return message(place, item);
    };
    check_weight(place, item)?;
    let text = value
        .as_str()
        .ok_or_else(|| expected(&format!("{place}.value"), &value, "a string"))?;
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
    let calls = match is_list(&value) {
        true => value.try_iter().into_iter().flatten().collect(),
        false => vec![value],
    };
    let calls = calls.into_iter().map(|call| {
        let is_named = |key: &str| !call.get_attr(key).unwrap_or_default().is_undefined();
        match is_object(&call) && is_named("name") && is_named("arguments") {
            true => Ok(context! { type => "function", function => call }),
            false => Err(wrong()),
        }
    });
    let calls = calls.collect::<Result<Vec<Value>, String>>()?;
    Ok(Message::of(
        context! { role => "assistant", content => "", tool_calls => calls },
    ))
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
    if !is_list(history) {
        return Err(wrong());
    }
    for pair in history.try_iter().into_iter().flatten() {
        let texts: Vec<Value> = pair.try_iter().into_iter().flatten().collect();
        match &texts[..] {
            [said, answered] if is_list(&pair) => {
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
