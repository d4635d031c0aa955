//! Anthropic's interface: `/v1/messages` and `/v1/messages/count_tokens`.

use std::collections::VecDeque;

use axum::response::Response;
use hlx_text::{ChatInput, Message};
use hlx_train::engine::{Event, Finish, Usage};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::messages::{texts, to_answer};
use crate::routes::{Shared, respond};
use crate::sampling::{Drawing, max_tokens, random_word, stops};
use crate::stream::{self, Chunks};
use crate::waiting::{Answer, Answers};

const ROLES: [&str; 2] = ["user", "assistant"];

/// What a request wants.
struct Wanted {
    said: Said,
    drawing: Drawing,
    most: usize,
}

/// The model and the conversation.
struct Said {
    model: String,
    input: ChatInput,
}

/// Reads a request, without a model.
fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let said = conversation(&mut fields)?;
    let drawing = Drawing::take_one(&mut fields)?;
    let drawing = drawing.with_stops(stops(&mut fields, "stop_sequences")?);
    let most = max_tokens(&mut fields, "max_tokens")?;
    let most = fields.needed("max_tokens", most)?;
    fields.pass(&["metadata", "cache_control"]);
    fields.pass_if(&[
        ("service_tier", &[json!("auto"), json!("standard_only")]),
        ("container", &[]),
    ])?;
    fields.finish()?;
    Ok(Wanted {
        said,
        drawing,
        most,
    })
}

/// Checks a request, as far as it can be without a model.
pub(crate) fn check(fields: Fields) -> Result<(), ApiError> {
    read(fields).map(drop)
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        said: Said { model, input },
        drawing,
        most,
    } = read(fields)?;
    let model = shared.model(&model)?;
    let prompt = model.chat_prompt(input).await?;
    let answers = Answers::start(&model, drawing.requests(&prompt, most, None))?;
    let id = format!("msg_{:016x}{:016x}", random_word()?, random_word()?);
    let begun = json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model.id,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {"input_tokens": prompt.len(), "output_tokens": 0},
        "seed": drawing.seed,
    });
    if drawing.streams {
        return Ok(stream::respond(Growing::new(begun, answers)));
    }
    let all = answers.collect().await?;
    let answer = all.first().cloned().unwrap_or_default();
    Ok(respond(&whole(begun, &answer)))
}

pub(crate) async fn count(shared: Shared, mut fields: Fields) -> Result<Response, ApiError> {
    let Said { model, input } = conversation(&mut fields)?;
    fields.pass(&["cache_control"]);
    fields.finish()?;
    let model = shared.model(&model)?;
    let prompt = model.chat_prompt(input).await?;
    Ok(respond(&json!({"input_tokens": prompt.len()})))
}

/// What both routes read: the model and the conversation.
fn conversation(fields: &mut Fields) -> Result<Said, ApiError> {
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
        let mut fields = Fields::of_value(&format!("messages[{at}]"), value)?;
        let role = fields.text("role")?;
        let role = fields.needed("role", role)?;
        if !ROLES.contains(&role.as_str()) {
            let reason = format!("{role:?} is not known here, expected user or assistant");
            return Err(ApiError::unsupported(&fields.path("role"), reason));
        }
        let content = fields.take("content");
        let content = fields.needed("content", content)?;
        let content = texts(&fields.path("content"), content, &["text"])?;
        fields.finish()?;
        messages.push(Message::new(&role, &content));
    }
    fields.pass_if(&[
        ("tools", &[json!([])]),
        (
            "tool_choice",
            &[json!({"type": "none"}), json!({"type": "auto"})],
        ),
        ("thinking", &[json!({"type": "disabled"})]),
        ("mcp_servers", &[json!([])]),
    ])?;
    let input = to_answer(&messages);
    Ok(Said { model, input })
}

/// Why an answer has ended, and the text that has ended it.
fn stopped(finish: Option<&Finish>) -> [Value; 2] {
    match finish {
        Some(Finish::Stop(None)) => [json!("end_turn"), Value::Null],
        Some(Finish::Stop(Some(text))) => {
            let text = String::from_utf8_lossy(text);
            [json!("stop_sequence"), json!(text)]
        }
        Some(Finish::Length) => [json!("max_tokens"), Value::Null],
        Some(Finish::Failed(_)) | None => [Value::Null, Value::Null],
    }
}

fn usage_of(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt - usage.reused,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.reused,
        "output_tokens": usage.answer,
    })
}

fn whole(mut body: Value, answer: &Answer) -> Value {
    let [reason, text] = stopped(answer.finish.as_ref());
    body["content"] = json!([{"type": "text", "text": answer.text}]);
    body["stop_reason"] = reason;
    body["stop_sequence"] = text;
    body["usage"] = usage_of(answer.usage);
    if let Some(digest) = &answer.digest {
        body["logits_sha256"] = json!(digest);
    }
    body
}

/// An answer as events.
struct Growing {
    answers: Answers,
    ready: VecDeque<Value>,
}

impl Growing {
    fn new(begun: Value, answers: Answers) -> Self {
        let block = json!({"type": "text", "text": ""});
        let ready = VecDeque::from([
            json!({"type": "message_start", "message": begun}),
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
            json!({"type": "ping"}),
        ]);
        Self { answers, ready }
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Prompt { .. } => {}
            Event::Piece { text, .. } if text.is_empty() => {}
            Event::Piece { text, .. } => {
                let delta = json!({"type": "text_delta", "text": text});
                self.ready
                    .push_back(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
            }
            Event::End {
                finish,
                usage,
                digest,
                ..
            } => {
                let [reason, text] = stopped(Some(&finish));
                let mut delta = json!({"stop_reason": reason, "stop_sequence": text});
                if let Some(digest) = digest {
                    delta["logits_sha256"] = json!(digest);
                }
                self.ready.extend([
                    json!({"type": "content_block_stop", "index": 0}),
                    json!({"type": "message_delta", "delta": delta, "usage": usage_of(usage)}),
                    json!({"type": "message_stop"}),
                ]);
            }
        }
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
        error.message_body()
    }
}
