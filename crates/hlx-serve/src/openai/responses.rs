//! `/v1/responses`: texts, whole or as events. Nothing is stored.

use std::collections::VecDeque;

use axum::response::Response;
use hlx_text::{ChatInput, Message};
use hlx_train::engine::{Event, Finish, Token, Usage};
use serde_json::{Value, json};

use super::chat::token_of;
use super::{HARMLESS, new_id, shortest};
use crate::app::{Model, Shared, now, respond};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::format::{Form, form_of};
use crate::messages::{texts, to_answer};
use crate::sampling::{Drawing, max_tokens};
use crate::stream::{self, Chunks};
use crate::waiting::{Answer, Answers};

const ROLES: [&str; 4] = ["assistant", "developer", "system", "user"];
/// What `include` may name.
const LOGPROBS: &str = "message.output_text.logprobs";
const MOST_TOP: u64 = 20;

/// What a request wants.
struct Wanted {
    model: String,
    instructions: Option<String>,
    input: ChatInput,
    drawing: Drawing,
    form: Option<Form>,
    /// The form as the request says it.
    text: Value,
    logprobs: Option<usize>,
    most: Option<usize>,
    metadata: Value,
}

/// Reads a request, without a model.
fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let model = fields.text("model")?;
    let model = fields.needed("model", model)?;
    let instructions = fields.text("instructions")?;
    let input = conversation(&mut fields, instructions.as_deref())?;
    let drawing = Drawing::take_one(&mut fields)?;
    let most = max_tokens(&mut fields, "max_output_tokens")?;
    let logprobs = logprobs(&mut fields)?;
    let mut form = None;
    let mut shown_text = json!({"format": {"type": "text"}});
    if let Some(mut text) = fields.object("text")? {
        if let Some(format) = text.object("format")? {
            shown_text["format"] = format.shown();
            form = form_of(format)?;
        }
        text.pass(&["verbosity"]);
        text.finish()?;
    }
    let metadata = fields.take("metadata").unwrap_or_else(|| json!({}));
    fields.pass(&HARMLESS);
    fields.pass_if(&[
        ("store", &[json!(false)]),
        ("background", &[json!(false)]),
        ("service_tier", &[json!("auto"), json!("default")]),
        ("truncation", &[json!("disabled")]),
        ("tools", &[json!([])]),
        ("tool_choice", &[json!("none"), json!("auto")]),
        ("parallel_tool_calls", &[json!(true), json!(false)]),
        ("reasoning", &[json!({})]),
    ])?;
    fields.finish()?;
    Ok(Wanted {
        model,
        instructions,
        input,
        drawing,
        form,
        text: shown_text,
        logprobs,
        most,
        metadata,
    })
}

/// Checks a request, as far as it can be without a model.
pub(crate) fn check(fields: Fields) -> Result<(), ApiError> {
    read(fields).map(drop)
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        model,
        instructions,
        input,
        drawing,
        form,
        text: shown_text,
        logprobs,
        most,
        metadata,
    } = read(fields)?;
    let model = shared.model(&model)?;
    let drawing = drawing.with_guides(model.guides(form).await?);
    let prompt = model.chat_prompt(input).await?;
    let room = most.unwrap_or_else(|| model.room_behind(&prompt));
    let answers = Answers::start(&model, drawing.requests(&prompt, room, logprobs))?;
    let sampling = drawing.sampling();
    let begun = json!({
        "id": new_id("resp")?.replace('-', "_"),
        "object": "response",
        "created_at": now(),
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": instructions,
        "max_output_tokens": most,
        "metadata": metadata,
        "model": model.id,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "seed": drawing.seed,
        "service_tier": "default",
        "store": false,
        "temperature": shortest(sampling.temperature),
        "text": shown_text,
        "tool_choice": "auto",
        "tools": [],
        "top_p": shortest(sampling.top_p),
        "truncation": "disabled",
        "usage": null,
    });
    let form = Shape {
        item: new_id("msg")?.replace('-', "_"),
        begun,
        model,
        has_logprobs: logprobs.is_some(),
    };
    if drawing.streams {
        return Ok(stream::respond(Growing::new(form, answers)));
    }
    let all = answers.collect().await?;
    let answer = all.first().cloned().unwrap_or_default();
    Ok(respond(&form.whole(&answer)))
}

/// What was said: `input` as a text, or as messages.
fn conversation(fields: &mut Fields, instructions: Option<&str>) -> Result<ChatInput, ApiError> {
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
    for (at, item) in items.into_iter().enumerate() {
        let mut item = Fields::of_value(&format!("input[{at}]"), item)?;
        let kind = item.text("type")?.unwrap_or_else(|| "message".to_owned());
        if kind != "message" {
            let reason = format!("{kind:?} is not known here, expected message");
            return Err(ApiError::unsupported(&item.path("type"), reason));
        }
        let role = item.text("role")?;
        let role = item.needed("role", role)?;
        if !ROLES.contains(&role.as_str()) {
            let expected = ROLES.join(", ");
            let reason = format!("{role:?} is not known here, expected one of {expected}");
            return Err(ApiError::unsupported(&item.path("role"), reason));
        }
        let content = item.take("content");
        let content = item.needed("content", content)?;
        let content = texts(
            &item.path("content"),
            content,
            &["input_text", "output_text"],
        )?;
        item.pass(&["id", "status"]);
        item.finish()?;
        // Templates know what a developer says under the role `system`.
        let role = if role == "developer" { "system" } else { &role };
        messages.push(Message::new(role, &content));
    }
    Ok(to_answer(&messages))
}

/// How many of the likeliest tokens are returned, if log-probabilities are.
fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let includes = fields.list("include")?.unwrap_or_default();
    if let Some(other) = includes.iter().find(|one| **one != LOGPROBS) {
        return Err(ApiError::unsupported(
            "include",
            format!("{other} is not known here"),
        ));
    }
    let top = fields.whole("top_logprobs", 0..=MOST_TOP)?.unwrap_or(0) as usize;
    match includes.is_empty() {
        false => Ok(Some(top)),
        true if top == 0 => Ok(None),
        true => {
            let reason = format!("needs include: [{LOGPROBS:?}]");
            Err(ApiError::of_parameter("top_logprobs", reason))
        }
    }
}

/// What bodies and events are made of.
struct Shape {
    item: String,
    begun: Value,
    model: Model,
    has_logprobs: bool,
}

impl Shape {
    fn tokens(&self, tokens: &[Token]) -> Value {
        let known = tokens.iter().filter_map(|token| token.logprobs.as_ref());
        let known = known.filter(|_| self.has_logprobs);
        json!(
            known
                .map(|one| token_of(&self.model, one))
                .collect::<Vec<_>>()
        )
    }

    fn part(&self, answer: &Answer) -> Value {
        json!({
            "type": "output_text",
            "text": answer.text,
            "annotations": [],
            "logprobs": self.tokens(&answer.tokens),
        })
    }

    fn item(&self, status: &str, content: Value) -> Value {
        json!({
            "id": self.item,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }

    fn status(answer: &Answer) -> &'static str {
        match answer.finish {
            Some(Finish::Length) => "incomplete",
            _ => "completed",
        }
    }

    fn whole(&self, answer: &Answer) -> Value {
        let mut body = self.begun.clone();
        let status = Self::status(answer);
        body["status"] = json!(status);
        if status == "incomplete" {
            body["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        body["output"] = json!([self.item(status, json!([self.part(answer)]))]);
        body["usage"] = usage_of(answer.usage);
        if let Some(digest) = &answer.digest {
            body["logits_sha256"] = json!(digest);
        }
        body
    }
}

fn usage_of(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.reused},
        "output_tokens": usage.answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.answer,
    })
}

/// An answer as events.
struct Growing {
    form: Shape,
    answers: Answers,
    answer: Answer,
    ready: VecDeque<Value>,
    n_events: usize,
}

impl Growing {
    fn new(form: Shape, answers: Answers) -> Self {
        let begun = form.begun.clone();
        let item = form.item("in_progress", json!([]));
        let part = form.part(&Answer::default());
        let mut growing = Self {
            form,
            answers,
            answer: Answer::default(),
            ready: VecDeque::new(),
            n_events: 0,
        };
        growing.push(json!({"type": "response.created", "response": begun}));
        growing.push(json!({"type": "response.in_progress", "response": begun}));
        growing
            .push(json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
        growing.push_part(json!({"type": "response.content_part.added", "part": part}));
        growing
    }

    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = json!(self.n_events);
        self.n_events += 1;
        self.ready.push_back(event);
    }

    /// An event of the answer's only part.
    fn push_part(&mut self, mut event: Value) {
        event["item_id"] = json!(self.form.item);
        event["output_index"] = json!(0);
        event["content_index"] = json!(0);
        self.push(event);
    }

    fn add(&mut self, event: Event) {
        if let Event::Piece { text, tokens } = &event {
            let logprobs = self.form.tokens(tokens);
            let is_empty = text.is_empty() && logprobs == json!([]);
            let delta =
                json!({"type": "response.output_text.delta", "delta": text, "logprobs": logprobs});
            if !is_empty {
                self.push_part(delta);
            }
        }
        self.answer.add(event);
        if self.answer.finish.is_none() {
            return;
        }
        let answer = std::mem::take(&mut self.answer);
        let (part, status) = (self.form.part(&answer), Shape::status(&answer));
        let item = self.form.item(status, json!([part]));
        let text = json!({
            "type": "response.output_text.done",
            "text": answer.text,
            "logprobs": part["logprobs"],
        });
        self.push_part(text);
        self.push_part(json!({"type": "response.content_part.done", "part": part}));
        self.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        let body = self.form.whole(&answer);
        self.push(json!({"type": format!("response.{status}"), "response": body}));
    }
}

impl Chunks for Growing {
    const NAMED: bool = true;

    async fn next(&mut self) -> Option<Result<Value, ApiError>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(ready));
            }
            match self.answers.next().await? {
                Ok((_, event)) => self.add(event),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn failed(&mut self, error: &ApiError) -> Value {
        json!({
            "type": "error",
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "sequence_number": self.n_events,
        })
    }
}
