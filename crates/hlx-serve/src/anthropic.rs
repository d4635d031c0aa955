//! Anthropic's interface: `/v1/messages` and `/v1/messages/count_tokens`.

mod said;

use std::collections::VecDeque;

use axum::response::Response;
use hlx_train::engine::{Event, Finish, Usage};
use serde_json::{Value, json};

use crate::app::{Shared, respond};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::sampling::{Drawing, max_tokens, random_word, stops};
use crate::stream::{self, Chunks};
use crate::tools::{Call, Part, Reader};
use crate::waiting::{Answer, Answers};
use said::Said;

/// What a request wants.
struct Wanted {
    said: Said,
    drawing: Drawing,
    most: usize,
}

/// Reads a request, without a model.
fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let said = Said::take(&mut fields)?;
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
        said:
            Said {
                model,
                input,
                has_tools,
                form,
            },
        drawing,
        most,
    } = read(fields)?;
    let model = shared.model(&model)?;
    if has_tools {
        model.check_tools()?;
    }
    let drawing = drawing.with_guides(model.guides(form).await?);
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
        return Ok(stream::respond(Growing::new(begun, answers, has_tools)));
    }
    let all = answers.collect().await?;
    let answer = all.first().cloned().unwrap_or_default();
    Ok(respond(&whole(begun, &answer, has_tools)?))
}

pub(crate) async fn count(shared: Shared, mut fields: Fields) -> Result<Response, ApiError> {
    let Said {
        model,
        input,
        has_tools,
        ..
    } = Said::take(&mut fields)?;
    fields.pass(&["cache_control"]);
    fields.finish()?;
    let model = shared.model(&model)?;
    if has_tools {
        model.check_tools()?;
    }
    let prompt = model.chat_prompt(input).await?;
    Ok(respond(&json!({"input_tokens": prompt.len()})))
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

fn whole(mut body: Value, answer: &Answer, has_tools: bool) -> Result<Value, ApiError> {
    let [mut reason, text] = stopped(answer.finish.as_ref());
    let mut content = Vec::new();
    for part in parts_of(&answer.text, has_tools) {
        content.push(match part {
            Part::Text(text) => json!({"type": "text", "text": text}),
            Part::Call(call) => {
                if reason == "end_turn" {
                    reason = json!("tool_use");
                }
                let mut block = begun_call(&call)?;
                block["input"] = input_of(&call);
                block
            }
        });
    }
    body["content"] = json!(content);
    body["stop_reason"] = reason;
    body["stop_sequence"] = text;
    body["usage"] = usage_of(answer.usage);
    if let Some(digest) = &answer.digest {
        body["logits_sha256"] = json!(digest);
    }
    Ok(body)
}

/// The parts of a whole text, neighbouring texts as one.
fn parts_of(text: &str, has_tools: bool) -> Vec<Part> {
    let parts = match has_tools {
        true => {
            let mut reader = Reader::default();
            let mut parts = reader.push(text);
            parts.extend(reader.finish());
            parts
        }
        false => vec![Part::Text(text.to_owned())],
    };
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (_, Part::Text(text)) if text.is_empty() => {}
            (Some(Part::Text(before)), Part::Text(text)) => *before += &text,
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn begun_call(call: &Call) -> Result<Value, ApiError> {
    let id = format!("toolu_{:016x}", random_word()?);
    Ok(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}))
}

/// What a function is called with; what is no JSON was written so by the model.
fn input_of(call: &Call) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments))
}

/// An answer as events.
struct Growing {
    answers: Answers,
    ready: VecDeque<Value>,
    /// What tells calls from text, where functions may be called.
    reader: Option<Reader>,
    /// The number of the block that is open, and whether it is one of text.
    block: usize,
    is_in_text: bool,
    has_called: bool,
}

impl Growing {
    fn new(begun: Value, answers: Answers, has_tools: bool) -> Self {
        let ready = VecDeque::from([
            json!({"type": "message_start", "message": begun}),
            json!({"type": "ping"}),
        ]);
        Self {
            answers,
            ready,
            reader: has_tools.then(Reader::default),
            block: 0,
            is_in_text: false,
            has_called: false,
        }
    }

    /// Opens a block.
    fn open(&mut self, block: &Value) {
        let index = self.block;
        self.ready.push_back(
            json!({"type": "content_block_start", "index": index, "content_block": block}),
        );
    }

    /// Adds to the block that is open.
    fn push(&mut self, delta: &Value) {
        let index = self.block;
        self.ready
            .push_back(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn close(&mut self) {
        let index = self.block;
        self.ready
            .push_back(json!({"type": "content_block_stop", "index": index}));
        self.block += 1;
        self.is_in_text = false;
    }

    fn add_part(&mut self, part: Part) -> Result<(), ApiError> {
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => {
                if !self.is_in_text {
                    self.open(&json!({"type": "text", "text": ""}));
                    self.is_in_text = true;
                }
                self.push(&json!({"type": "text_delta", "text": text}));
            }
            Part::Call(call) => {
                if self.is_in_text {
                    self.close();
                }
                self.open(&begun_call(&call)?);
                let input = input_of(&call).to_string();
                self.push(&json!({"type": "input_json_delta", "partial_json": input}));
                self.close();
                self.has_called = true;
            }
        }
        Ok(())
    }

    fn add(&mut self, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Prompt { .. } => {}
            Event::Piece { text, .. } => {
                let parts = match &mut self.reader {
                    Some(reader) => reader.push(&text),
                    None => vec![Part::Text(text)],
                };
                parts.into_iter().try_for_each(|part| self.add_part(part))?;
            }
            Event::End {
                finish,
                usage,
                digest,
                ..
            } => {
                let rest = self.reader.take().map_or(Vec::new(), Reader::finish);
                rest.into_iter().try_for_each(|part| self.add_part(part))?;
                if self.is_in_text {
                    self.close();
                }
                let [mut reason, text] = stopped(Some(&finish));
                if self.has_called && reason == "end_turn" {
                    reason = json!("tool_use");
                }
                let mut delta = json!({"stop_reason": reason, "stop_sequence": text});
                if let Some(digest) = digest {
                    delta["logits_sha256"] = json!(digest);
                }
                self.ready.extend([
                    json!({"type": "message_delta", "delta": delta, "usage": usage_of(usage)}),
                    json!({"type": "message_stop"}),
                ]);
            }
        }
        Ok(())
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
                Ok((_, event)) => {
                    if let Err(error) = self.add(event) {
                        return Some(Err(error));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn failed(&mut self, error: &ApiError) -> Value {
        error.message_body()
    }
}
