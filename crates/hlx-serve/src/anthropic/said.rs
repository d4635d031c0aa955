//! What a request says: the model, the conversation and its functions.

use hlx_text::Message;
use serde_json::{Value, json};

use crate::conversation::Conversation;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::messages::{MOST, text_of, texts, to_answer};
use crate::tools::{Must, Tools, function_of};

/// Takes what `/v1/messages` and `/v1/messages/count_tokens` have in common: the model, and the conversation.
pub(super) fn said(fields: &mut Fields) -> Result<(String, Conversation), ApiError> {
    let model = fields.text_needed("model")?;
    let mut messages = Vec::new();
    if let Some(system) = fields.take("system") {
        let text = texts(&fields.path("system"), system, &["text"])?;
        messages.push(Message::new("system", &text));
    }
    let all = fields.list("messages")?;
    let all = fields.needed("messages", all)?;
    if all.is_empty() || all.len() > MOST {
        let reason = format!("has {} messages, expected 1 to {MOST}", all.len());
        return Err(ApiError::of_parameter("messages", reason));
    }
    for (at, value) in all.into_iter().enumerate() {
        message(&format!("messages[{at}]"), value, &mut messages)?;
    }
    let tools = tools(fields)?;
    fields.pass_if(&[
        ("thinking", &[json!({"type": "disabled"})]),
        ("mcp_servers", &[json!([])]),
    ])?;
    let conversation = Conversation::new(to_answer(&messages), tools, None)?;
    Ok((model, conversation))
}

fn tools(fields: &mut Fields) -> Result<Option<Tools>, ApiError> {
    let all = fields.each("tools", |mut tool| {
        tool.pass_if(&[("type", &[json!("custom")])])?;
        function_of(tool, "input_schema")
    })?;
    let Some(mut choice) = fields.object("tool_choice")? else {
        return Tools::new(all, Some(Must::Not), true);
    };
    let must = match choice.text_needed("type")?.as_str() {
        "auto" => Some(Must::Not),
        "any" => Some(Must::Any),
        "none" => None,
        "tool" => Some(Must::Named(choice.text_needed("name")?)),
        other => {
            let reason = format!("{other:?} is not known here, expected auto, any, tool or none");
            return Err(ApiError::unsupported("tool_choice.type", reason));
        }
    };
    let is_single = choice.flag("disable_parallel_tool_use")?.unwrap_or(false);
    choice.finish()?;
    Tools::new(all, must, !is_single)
}

/// Adds a message: a text, the calls of functions in it, and one message for what each function has returned.
fn message(path: &str, value: Value, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let mut fields = Fields::of_value(path, value)?;
    let role = fields.text_needed("role")?;
    if !["user", "assistant"].contains(&role.as_str()) {
        let reason = format!("{role:?} is not known here, expected user or assistant");
        return Err(ApiError::unsupported(&fields.path("role"), reason));
    }
    let content = fields.value_needed("content")?;
    let path = fields.path("content");
    fields.finish()?;
    let blocks = match content {
        Value::String(text) => {
            messages.push(Message::new(&role, &text));
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        other => return Err(wrong(&path, &other, "a string or an array of blocks")),
    };
    let (mut text, mut calls, mut returned) = (String::new(), Vec::new(), Vec::new());
    for (at, block) in blocks.into_iter().enumerate() {
        let path = format!("{path}[{at}]");
        match (block["type"].as_str().unwrap_or_default(), role.as_str()) {
            ("tool_use", "assistant") => calls.push(called(&path, block)?),
            ("tool_result", "user") => returned.push(result(&path, block)?),
            _ => text += &text_of(&path, block, &["text"])?,
        }
    }
    let has_returned = !returned.is_empty();
    for object in returned {
        messages.push(of_object(&path, object)?);
    }
    if has_returned && text.is_empty() {
        return Ok(());
    }
    let mut object = json!({"role": role, "content": text});
    if !calls.is_empty() {
        object["tool_calls"] = json!(calls);
    }
    messages.push(of_object(&path, object)?);
    Ok(())
}

fn of_object(path: &str, object: Value) -> Result<Message, ApiError> {
    serde_json::from_value(object).map_err(|error| ApiError::of_parameter(path, error))
}

/// A call as templates find it.
fn called(path: &str, block: Value) -> Result<Value, ApiError> {
    let mut fields = Fields::of_value(path, block)?;
    let id = fields.text("id")?;
    let name = fields.text_needed("name")?;
    let input = fields.object("input")?;
    let arguments = input.map_or_else(|| json!({}), |input| input.shown());
    fields.pass(&["type", "cache_control"]);
    fields.finish()?;
    let function = json!({"name": name, "arguments": arguments});
    Ok(json!({"id": id, "type": "function", "function": function}))
}

/// What a function has returned, as templates find it.
fn result(path: &str, block: Value) -> Result<Value, ApiError> {
    let mut fields = Fields::of_value(path, block)?;
    let id = fields.text_needed("tool_use_id")?;
    let text = match fields.take("content") {
        Some(content) => texts(&fields.path("content"), content, &["text"])?,
        None => String::new(),
    };
    fields.flag("is_error")?;
    fields.pass(&["type", "cache_control"]);
    fields.finish()?;
    Ok(json!({"role": "tool", "tool_call_id": id, "content": text}))
}
