//! The messages of a conversation, as a chat template finds them.

use hlx_text::{ChatInput, Message};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::{Fields, wrong};

const ROLES: [&str; 5] = ["assistant", "developer", "system", "tool", "user"];
/// Messages of a conversation at most.
pub(crate) const MOST: usize = 10_000;

/// Reads messages of OpenAI's form. What a developer says is of the role `system`, which templates know.
pub(crate) fn conversation(messages: Vec<Value>) -> Result<ChatInput, ApiError> {
    if messages.is_empty() || messages.len() > MOST {
        let n = messages.len();
        let reason = format!("has {n} messages, expected 1 to {MOST}");
        return Err(ApiError::of_parameter("messages", reason));
    }
    let read = messages.into_iter().enumerate();
    let read = read.map(|(at, value)| message(&format!("messages[{at}]"), value));
    Ok(to_answer(&read.collect::<Result<Vec<_>, _>>()?))
}

/// Messages that are to be answered.
pub(crate) fn to_answer(messages: &[Message]) -> ChatInput {
    ChatInput {
        add_generation_prompt: true,
        ..ChatInput::of(messages)
    }
}

fn message(path: &str, value: Value) -> Result<Message, ApiError> {
    let mut fields = Fields::of_value(path, value)?;
    let role = fields.text_needed("role")?;
    if !ROLES.contains(&role.as_str()) {
        let reason = format!(
            "{role:?} is not known here, expected one of {}",
            ROLES.join(", ")
        );
        return Err(ApiError::unsupported(&fields.path("role"), reason));
    }
    let calls = match role.as_str() {
        "assistant" => fields.list("tool_calls")?.unwrap_or_default(),
        _ => Vec::new(),
    };
    let content = match fields.take("content") {
        // Who only calls functions says nothing.
        None if !calls.is_empty() => String::new(),
        content => {
            let content = fields.needed("content", content)?;
            texts(&fields.path("content"), content, &["text"])?
        }
    };
    let role = if role == "developer" {
        "system".to_owned()
    } else {
        role
    };
    let mut object = json!({"role": role, "content": content});
    if !calls.is_empty() {
        let path = fields.path("tool_calls");
        let read = calls.into_iter().enumerate();
        let read = read.map(|(at, call)| called(&format!("{path}[{at}]"), call));
        object["tool_calls"] = json!(read.collect::<Result<Vec<_>, _>>()?);
    }
    for name in ["name", "reasoning_content", "tool_call_id"] {
        if let Some(text) = fields.text(name)? {
            object[name] = json!(text);
        }
    }
    fields.pass_if(&[
        ("refusal", &[]),
        ("audio", &[]),
        ("annotations", &[json!([])]),
        ("tool_calls", &[json!([])]),
        ("function_call", &[]),
    ])?;
    fields.finish()?;
    serde_json::from_value(object).map_err(|error| ApiError::of_parameter(path, error))
}

/// A call as templates find it: with its arguments as an object.
fn called(path: &str, value: Value) -> Result<Value, ApiError> {
    let mut fields = Fields::of_value(path, value)?;
    let id = fields.text("id")?;
    let function = fields.object("function")?;
    let mut function = fields.needed("function", function)?;
    let name = function.text_needed("name")?;
    let arguments = function
        .text("arguments")?
        .unwrap_or_else(|| "{}".to_owned());
    let arguments = serde_json::from_str::<Value>(&arguments);
    let arguments = arguments
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| ApiError::of_parameter(&function.path("arguments"), "is no JSON object"))?;
    function.finish()?;
    fields.pass(&["index"]);
    fields.pass_if(&[("type", &[json!("function")])])?;
    fields.finish()?;
    let function = json!({"name": name, "arguments": arguments});
    Ok(json!({"id": id, "type": "function", "function": function}))
}

/// The text of a value that is one, or has parts of these types one after the other.
pub(crate) fn texts(path: &str, value: Value, kinds: &[&str]) -> Result<String, ApiError> {
    let parts = match value {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        other => return Err(wrong(path, &other, "a string or an array of parts")),
    };
    let mut all = String::new();
    for (at, part) in parts.into_iter().enumerate() {
        all += &text_of(&format!("{path}[{at}]"), part, kinds)?;
    }
    Ok(all)
}

/// The text of a part of one of these types.
pub(crate) fn text_of(path: &str, part: Value, kinds: &[&str]) -> Result<String, ApiError> {
    let mut fields = Fields::of_value(path, part)?;
    let kind = fields.text_needed("type")?;
    if !kinds.contains(&kind.as_str()) {
        let expected = kinds.join(" or ");
        let reason = format!("{kind:?} is not known here, expected {expected}");
        return Err(ApiError::unsupported(&fields.path("type"), reason));
    }
    let text = fields.text_needed("text")?;
    fields.pass(&["annotations", "cache_control", "citations", "logprobs"]);
    fields.finish()?;
    Ok(text)
}
