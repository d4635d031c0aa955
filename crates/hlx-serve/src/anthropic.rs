//! Anthropic's interface: `/v1/messages` and `/v1/messages/count_tokens`.

mod said;

use std::collections::VecDeque;

use axum::response::Response;
use hlx_train::engine::{Event, Finish, Usage};
use serde_json::{Value, json};

use crate::app::{Shared, respond};
use crate::conversation::Conversation;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::random::random_word;
use crate::sampling::{Drawing, max_tokens, stops};
use crate::stream::{self, Chunk, Chunks};
use crate::tools::{Calls, Part, Reader};
use crate::waiting::{Answer, Answers};
use said::said;

/// What a request wants.
pub(crate) struct Wanted {
    model: String,
    conversation: Conversation,
    drawing: Drawing,
    most: usize,
}

/// Reads a request, without a model.
pub(crate) fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let (model, conversation) = said(&mut fields)?;
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
        model,
        conversation,
        drawing,
        most,
    })
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        model,
        conversation,
        drawing,
        most,
    } = read(fields)?;
    let model = shared.model(&model)?;
    let mut laid = model.lay_out(conversation).await?;
    let drawing = drawing.of(&mut laid);
    let (prompt, calls) = (laid.prompt, laid.calls);
    let answers = Answers::start(&model, drawing.requests(&prompt, most, None), &drawing.wish)?;
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
        return Ok(stream::respond(Growing::new(begun, answers, calls)));
    }
    let (all, receipts) = answers.collect().await?;
    let answer = all.first().cloned().unwrap_or_default();
    let mut body = whole(begun, &answer, calls.as_ref())?;
    receipts.add_to(&mut body);
    Ok(respond(&body))
}

/// Reads a request whose tokens are counted: the model, and the conversation.
pub(crate) fn read_counted(mut fields: Fields) -> Result<(String, Conversation), ApiError> {
    let read = said(&mut fields)?;
    fields.pass(&["cache_control"]);
    fields.finish()?;
    Ok(read)
}

pub(crate) async fn count(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let (model, conversation) = read_counted(fields)?;
    let laid = shared.model(&model)?.lay_out(conversation).await?;
    Ok(respond(&json!({"input_tokens": laid.prompt.len()})))
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

fn whole(mut body: Value, answer: &Answer, calls: Option<&Calls>) -> Result<Value, ApiError> {
    let [mut reason, text] = stopped(answer.finish.as_ref());
    let parts = match calls {
        Some(calls) => calls.reader().read(&answer.text),
        None => vec![Part::Text(answer.text.clone())],
    };
    let mut content: Vec<Value> = Vec::new();
    let mut arguments = String::new();
    for part in parts {
        match (part, content.last_mut()) {
            (Part::Text(text), _) if text.is_empty() => {}
            (Part::Text(text), Some(block)) if block["type"] == "text" => {
                let before = block["text"].as_str().unwrap_or_default();
                block["text"] = json!(format!("{before}{text}"));
            }
            (Part::Text(text), _) => content.push(json!({"type": "text", "text": text})),
            (Part::Call(name), _) => {
                if reason == "end_turn" {
                    reason = json!("tool_use");
                }
                content.push(begun_call(&name, calls)?);
                arguments.clear();
            }
            (Part::Arguments(piece), _) => arguments += &piece,
            // What is no JSON was written so by the model.
            (Part::End, Some(block)) => {
                let input = serde_json::from_str(&arguments);
                block["input"] = input.unwrap_or_else(|_| json!(arguments));
            }
            (Part::End, None) => {}
        }
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

fn begun_call(name: &str, calls: Option<&Calls>) -> Result<Value, ApiError> {
    let id = calls.map(|calls| calls.new_id("toolu_")).transpose()?;
    Ok(json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}

/// An answer as events.
struct Growing {
    answers: Answers,
    ready: VecDeque<Value>,
    calls: Option<Calls>,
    /// What tells calls from text, where functions may be called.
    reader: Option<Reader>,
    /// The number of the block that is open, and whether it is one of text.
    block: usize,
    is_in_text: bool,
    has_called: bool,
}

impl Growing {
    fn new(begun: Value, answers: Answers, calls: Option<Calls>) -> Self {
        let ready = VecDeque::from([
            json!({"type": "message_start", "message": begun}),
            json!({"type": "ping"}),
        ]);
        Self {
            answers,
            ready,
            reader: calls.as_ref().map(Calls::reader),
            calls,
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
            Part::Call(name) => {
                if self.is_in_text {
                    self.close();
                }
                self.open(&begun_call(&name, self.calls.as_ref())?);
                self.has_called = true;
            }
            Part::Arguments(piece) => {
                self.push(&json!({"type": "input_json_delta", "partial_json": piece}));
            }
            Part::End => self.close(),
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
                let rest = self.reader.take().map(|mut reader| reader.finish());
                let rest = rest.unwrap_or_default();
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
                let mut stop = json!({"type": "message_stop"});
                self.answers.shown()?.add_to(&mut stop);
                self.ready.extend([
                    json!({"type": "message_delta", "delta": delta, "usage": usage_of(usage)}),
                    stop,
                ]);
            }
        }
        Ok(())
    }
}

impl Chunks for Growing {
    const NAMED: bool = true;

    async fn next(&mut self) -> Option<Result<Chunk, ApiError>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(Chunk::named(&ready)));
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
