//! What a request says: the conversation and its functions.

use hlx_text::{ChatInput, Message};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::messages::{texts, to_answer};
use crate::tools::{Tools, check_type, choice_of, function_of};

const ROLES: [&str; 4] = ["assistant", "developer", "system", "user"];

/// What was said: `input` as a text, or as messages, calls of functions and what these have returned.
pub(super) fn conversation(
    fields: &mut Fields,
    instructions: Option<&str>,
) -> Result<ChatInput, ApiError> {
    let mut messages = Vec::new();
    messages.extend(instructions.map(|text| Message::new("system", text)));
    let input = fields.take("input");
    let items = match fields.needed("input", input)? {
        Value::Array(items) if !items.is_empty() => items,
        Value::Array(_) => return Err(ApiError::of_parameter("input", "has no message")),
        text => {
            let text = texts("input", text, &["input_text"])?;
            messages.push(Message::new("user", &text));
            return Ok(to_answer(&messages));
        }
    };
    // Calls that follow each other are one message of the assistant's.
    let mut calls = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let path = format!("input[{at}]");
        let mut item = Fields::of_value(&path, item)?;
        let kind = item.text("type")?.unwrap_or_else(|| "message".to_owned());
        if kind == "function_call" {
            calls.push(called(item)?);
            continue;
        }
        if !calls.is_empty() {
            let calls = std::mem::take(&mut calls);
            let object = json!({"role": "assistant", "content": "", "tool_calls": calls});
            messages.push(of_object(&path, object)?);
        }
        let object = match kind.as_str() {
            "message" => message(item)?,
            "function_call_output" => returned(item)?,
            other => {
                let reason = format!("{other:?} is not known here");
                return Err(ApiError::unsupported(&item.path("type"), reason));
            }
        };
        messages.push(of_object(&path, object)?);
    }
    if !calls.is_empty() {
        return Err(ApiError::of_parameter(
            "input",
            "ends with a call that has returned nothing",
        ));
    }
    Ok(to_answer(&messages))
}

/// The functions of a request.
pub(super) fn tools(fields: &mut Fields) -> Result<Option<Tools>, ApiError> {
    let is_parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    let all = fields.each("tools", |mut tool| {
        check_type(&mut tool)?;
        function_of(tool, "parameters")
    })?;
    let choice = fields.take("tool_choice");
    let must = choice_of(choice.as_ref(), |value| value["name"].as_str())?;
    Tools::new(all, must, is_parallel)
}

/// The functions as the request says them.
pub(super) fn shown_tools(fields: &Fields) -> Value {
    let shown = fields.shown();
    match &shown["tools"] {
        Value::Null => json!([]),
        tools => tools.clone(),
    }
}

fn of_object(path: &str, object: Value) -> Result<Message, ApiError> {
    serde_json::from_value(object).map_err(|error| ApiError::of_parameter(path, error))
}

fn message(mut item: Fields) -> Result<Value, ApiError> {
    let role = item.text_needed("role")?;
    if !ROLES.contains(&role.as_str()) {
        let expected = ROLES.join(", ");
        let reason = format!("{role:?} is not known here, expected one of {expected}");
        return Err(ApiError::unsupported(&item.path("role"), reason));
    }
    let content = item.value_needed("content")?;
    let kinds = ["input_text", "output_text"];
    let content = texts(&item.path("content"), content, &kinds)?;
    item.pass(&["id", "status"]);
    item.finish()?;
    // Templates know what a developer says under the role `system`.
    let role = if role == "developer" { "system" } else { &role };
    Ok(json!({"role": role, "content": content}))
}

/// A call as templates find it.
fn called(mut item: Fields) -> Result<Value, ApiError> {
    let id = item.text_needed("call_id")?;
    let name = item.text_needed("name")?;
    let arguments = item.text("arguments")?.unwrap_or_else(|| "{}".to_owned());
    let arguments = serde_json::from_str::<Value>(&arguments);
    let arguments = arguments.ok().filter(Value::is_object);
    let arguments = arguments
        .ok_or_else(|| ApiError::of_parameter(&item.path("arguments"), "is no JSON object"))?;
    item.pass(&["id", "status"]);
    item.finish()?;
    let function = json!({"name": name, "arguments": arguments});
    Ok(json!({"id": id, "type": "function", "function": function}))
}

/// What a function has returned.
fn returned(mut item: Fields) -> Result<Value, ApiError> {
    let id = item.text_needed("call_id")?;
    let output = item.value_needed("output")?;
    let text = texts(&item.path("output"), output, &["input_text"])?;
    item.pass(&["id", "status"]);
    item.finish()?;
    Ok(json!({"role": "tool", "tool_call_id": id, "content": text}))
}
