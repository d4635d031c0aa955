//! What a request says: the model, the conversation and its functions.

use hlx_text::{ChatInput, Message};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::format::Form;
use crate::messages::{text_of, texts, to_answer};
use crate::tools::{Must, Tools, function_of};

/// The model and the conversation.
pub(super) struct Said {
    pub model: String,
    pub input: ChatInput,
    pub has_tools: bool,
    /// The form of an answer that must call a function.
    pub form: Option<Form>,
}

impl Said {
    /// Takes what `/v1/messages` and `/v1/messages/count_tokens` have in common.
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let model = fields.text("model")?;
        let model = fields.needed("model", model)?;
        let mut messages = Vec::new();
        if let Some(system) = fields.take("system") {
            let text = texts(&fields.path("system"), system, &["text"])?;
            messages.push(Message::new("system", &text));
        }
        let all = fields.list("messages")?;
        let all = fields.needed("messages", all)?;
        if all.is_empty() {
            return Err(ApiError::of_parameter("messages", "has no message"));
        }
        for (at, value) in all.into_iter().enumerate() {
            message(&format!("messages[{at}]"), value, &mut messages)?;
        }
        let tools = tools(fields)?;
        fields.pass_if(&[
            ("thinking", &[json!({"type": "disabled"})]),
            ("mcp_servers", &[json!([])]),
        ])?;
        let mut input = to_answer(&messages);
        let form = match &tools {
            Some(tools) => tools.give_to(&mut input)?,
            None => None,
        };
        Ok(Self {
            model,
            input,
            has_tools: tools.is_some(),
            form,
        })
    }
}

fn tools(fields: &mut Fields) -> Result<Option<Tools>, ApiError> {
    let mut all = Vec::new();
    for (at, tool) in fields
        .list("tools")?
        .unwrap_or_default()
        .into_iter()
        .enumerate()
    {
        let mut tool = Fields::of_value(&format!("tools[{at}]"), tool)?;
        tool.pass_if(&[("type", &[json!("custom")])])?;
        all.push(function_of(tool, "input_schema")?);
    }
    let Some(mut choice) = fields.object("tool_choice")? else {
        return Tools::new(all, Must::Not);
    };
    let kind = choice.text("type")?;
    let must = match choice.needed("type", kind)?.as_str() {
        "auto" => Some(Must::Not),
        "any" => Some(Must::Any),
        "none" => None,
        "tool" => {
            let name = choice.text("name")?;
            Some(Must::Named(choice.needed("name", name)?))
        }
        other => {
            let reason = format!("{other:?} is not known here, expected auto, any, tool or none");
            return Err(ApiError::unsupported("tool_choice.type", reason));
        }
    };
    choice.pass(&["disable_parallel_tool_use"]);
    choice.finish()?;
    match must {
        Some(must) => Tools::new(all, must),
        None => Ok(None),
    }
}

/// Adds a message: a text, the calls of functions in it, and one message for what each function has returned.
fn message(path: &str, value: Value, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let mut fields = Fields::of_value(path, value)?;
    let role = fields.text("role")?;
    let role = fields.needed("role", role)?;
    if !["user", "assistant"].contains(&role.as_str()) {
        let reason = format!("{role:?} is not known here, expected user or assistant");
        return Err(ApiError::unsupported(&fields.path("role"), reason));
    }
    let content = fields.take("content");
    let content = fields.needed("content", content)?;
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
    let name = fields.text("name")?;
    let name = fields.needed("name", name)?;
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
    let id = fields.text("tool_use_id")?;
    let id = fields.needed("tool_use_id", id)?;
    let text = match fields.take("content") {
        Some(content) => texts(&fields.path("content"), content, &["text"])?,
        None => String::new(),
    };
    fields.flag("is_error")?;
    fields.pass(&["type", "cache_control"]);
    fields.finish()?;
    Ok(json!({"role": "tool", "tool_call_id": id, "content": text}))
}
