//! `/v1/chat/completions`.

use std::collections::VecDeque;

use axum::response::Response;
use hlx_train::engine::{Event, Logprobs, Token, Usage};
use serde_json::{Value, json};

use super::{Frame, HARMLESS, Head, finish_reason, logprob, usage_of};
use crate::app::{Shared, respond};
use crate::conversation::Conversation;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::format::form_of;
use crate::messages::conversation;
use crate::sampling::{Drawing, max_tokens};
use crate::served::Served;
use crate::stream::{self, Chunk, Chunks};
use crate::tools::{self, Calls, Part, Reader, whole};
use crate::waiting::{Answer, Answers, all_usage};

/// The likeliest tokens that are returned for a token at most.
const MOST_TOP: u64 = 20;

const KIND: &str = "chat.completion.chunk";

/// What a request wants.
pub(crate) struct Wanted {
    model: String,
    conversation: Conversation,
    drawing: Drawing,
    logprobs: Option<usize>,
    most: Option<usize>,
}

/// Reads a request, without a model.
pub(crate) fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let model = fields.text_needed("model")?;
    let messages = fields.list("messages")?;
    let mut input = conversation(fields.needed("messages", messages)?)?;
    let drawing = Drawing::take(&mut fields)?;
    let tools = tools::take(&mut fields)?;
    let form = match fields.object("response_format")? {
        Some(form) => form_of(form)?,
        None => None,
    };
    let logprobs = logprobs(&mut fields)?;
    let old = max_tokens(&mut fields, "max_tokens")?;
    let most = max_tokens(&mut fields, "max_completion_tokens")?.or(old);
    if let Some(variables) = fields.object("chat_template_kwargs")? {
        let variables = serde_json::from_value(Value::Object(variables.into_rest()));
        let wrong = |error| ApiError::of_parameter("chat_template_kwargs", error);
        input.variables = variables.map_err(wrong)?;
    }
    fields.pass(&HARMLESS);
    fields.pass_if(&[
        ("store", &[json!(false)]),
        ("service_tier", &[json!("auto"), json!("default")]),
        ("modalities", &[json!(["text"])]),
        ("verbosity", &[json!("medium")]),
    ])?;
    fields.finish()?;
    Ok(Wanted {
        model,
        conversation: Conversation::new(input, tools, form)?,
        drawing,
        logprobs,
        most,
    })
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        model,
        conversation,
        drawing,
        logprobs,
        most,
    } = read(fields)?;
    let model = shared.model(&model)?;
    model.check_number(1, drawing.n)?;
    let mut laid = model.lay_out(conversation).await?;
    let drawing = drawing.of(&mut laid);
    let most = most.unwrap_or_else(|| model.room_behind(&laid.prompt));
    let requests = drawing.requests(&laid.prompt, most, logprobs);
    let answers = Answers::start(&model, requests, &drawing.wish)?;
    let head = Head::new("chatcmpl-", model, drawing.seed)?;
    let calls = laid.calls;
    if drawing.streams {
        let growing = Growing::new(head, drawing, calls, answers)?;
        return Ok(stream::respond(growing));
    }
    let (all, receipts) = answers.collect().await?;
    let usages: Vec<Usage> = all.iter().map(|one| one.usage).collect();
    let choices = all.iter().enumerate();
    let choices = choices.map(|(index, one)| {
        let tokens = logprobs.map(|_| tokens_of(&head.model, &one.tokens));
        choice(calls.as_ref(), index, one, tokens)
    });
    let choices = choices.collect::<Result<Vec<_>, _>>()?;
    let usage = usage_of(all_usage(&usages, drawing.n));
    let mut body = head.body("chat.completion", json!(choices), Some(usage));
    receipts.add_to(&mut body);
    Ok(respond(&body))
}

/// How many of the likeliest tokens are returned, if log-probabilities are.
fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    let top = fields.whole("top_logprobs", 0..=MOST_TOP)?;
    match (wanted, top) {
        (false, Some(1..)) => Err(ApiError::of_parameter(
            "top_logprobs",
            "needs logprobs: true",
        )),
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0) as usize)),
    }
}

fn choice(
    calls: Option<&Calls>,
    index: usize,
    answer: &Answer,
    tokens: Option<Value>,
) -> Result<Value, ApiError> {
    let mut message = json!({"role": "assistant", "content": answer.text, "refusal": null});
    let mut finish = finish_reason(answer.finish.as_ref());
    if let Some(calls) = calls {
        let (text, found) = whole(calls.reader().read(&answer.text));
        message["content"] = json!(text);
        if !found.is_empty() {
            if text.is_empty() {
                message["content"] = Value::Null;
            }
            let found = found.iter().map(|call| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                let id = calls.new_id("call_")?;
                Ok(json!({"id": id, "type": "function", "function": function}))
            });
            message["tool_calls"] = json!(found.collect::<Result<Vec<_>, ApiError>>()?);
            finish = called(finish);
        }
    }
    let mut choice = json!({
        "index": index,
        "message": message,
        "logprobs": tokens,
        "finish_reason": finish,
    });
    if let Some(digest) = &answer.digest {
        choice["logits_sha256"] = json!(digest);
    }
    Ok(choice)
}

/// Why an answer has ended that calls a function.
fn called(finish: Value) -> Value {
    if finish == "stop" {
        json!("tool_calls")
    } else {
        finish
    }
}

fn tokens_of(model: &Served, tokens: &[Token]) -> Value {
    let known = tokens.iter().filter_map(|token| token.logprobs.as_ref());
    let content: Vec<Value> = known.map(|one| token_of(model, one)).collect();
    json!({"content": content, "refusal": null})
}

pub(super) fn token_of(model: &Served, logprobs: &Logprobs) -> Value {
    let one = |id: u32, value: f32| {
        let text = model.token_text(id);
        // A token that is a part of a character has bytes that are not known here.
        let bytes = (!text.contains('\u{fffd}')).then(|| text.clone().into_bytes());
        json!({"token": text, "logprob": logprob(value), "bytes": bytes})
    };
    let mut token = one(logprobs.id, logprobs.own);
    let top: Vec<Value> = logprobs
        .top
        .iter()
        .map(|&(id, value)| one(id, value))
        .collect();
    token["top_logprobs"] = json!(top);
    token
}

/// Answers as chunks.
struct Growing {
    head: Head,
    drawing: Drawing,
    answers: Answers,
    usages: Vec<Usage>,
    calls: Option<Calls>,
    /// For answers that may call functions: what tells calls from text.
    readers: Vec<Reader>,
    /// The calls of each answer that have been told.
    n_calls: Vec<usize>,
    frame: Frame,
    /// Chunks as JSON.
    ready: VecDeque<String>,
    has_usage: bool,
    has_receipts: bool,
}

impl Growing {
    fn new(
        head: Head,
        drawing: Drawing,
        calls: Option<Calls>,
        answers: Answers,
    ) -> Result<Self, ApiError> {
        let usage = drawing.includes_usage.then_some(Value::Null);
        let readers = calls
            .iter()
            .flat_map(|calls| (0..drawing.n).map(|_| calls.reader()));
        let mut growing = Self {
            usages: vec![Usage::default(); drawing.n],
            readers: readers.collect(),
            n_calls: vec![0; drawing.n],
            calls,
            has_usage: !drawing.includes_usage,
            has_receipts: false,
            ready: VecDeque::new(),
            frame: Frame::new(&head, KIND, usage)?,
            head,
            drawing,
            answers,
        };
        for index in 0..growing.drawing.n {
            let delta = json!({"role": "assistant", "content": "", "refusal": null});
            let first = growing.chunk(index, delta, Value::Null, Value::Null);
            growing.ready.push_back(first);
        }
        Ok(growing)
    }

    fn chunk(&self, index: usize, delta: Value, logprobs: Value, finish: Value) -> String {
        let choice =
            json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        self.frame.chunk(&choice.to_string())
    }

    /// The chunk of a text, the one that is written for every token.
    fn text_chunk(&self, index: usize, text: String, logprobs: &Value) -> String {
        let text = Value::String(text);
        self.frame.chunk(&format!(
            "{{\"index\":{index},\"delta\":{{\"content\":{text}}},\"logprobs\":{logprobs},\"finish_reason\":null}}"
        ))
    }

    /// Adds the chunks of an event.
    fn add(&mut self, index: usize, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Prompt { .. } => {}
            Event::Piece { text, tokens } => {
                let has_logprobs = tokens.iter().any(|token| token.logprobs.is_some());
                let logprobs = match has_logprobs {
                    true => tokens_of(&self.head.model, &tokens),
                    false => Value::Null,
                };
                let parts = match self.readers.get_mut(index) {
                    Some(reader) => reader.push(&text),
                    None => vec![Part::Text(text)],
                };
                self.add_parts(index, parts, logprobs)?;
            }
            Event::End {
                finish,
                usage,
                digest,
                ..
            } => {
                self.usages[index] = usage;
                let mut finish = finish_reason(Some(&finish));
                if let Some(reader) = self.readers.get_mut(index) {
                    if reader.n_calls() > 0 {
                        finish = called(finish);
                    }
                    let parts = reader.finish();
                    self.add_parts(index, parts, Value::Null)?;
                }
                let mut choice =
                    json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": finish});
                if let Some(digest) = digest {
                    choice["logits_sha256"] = json!(digest);
                }
                self.ready.push_back(self.frame.chunk(&choice.to_string()));
            }
        }
        Ok(())
    }

    /// Adds a chunk for each part; the log-probabilities are in the first.
    fn add_parts(
        &mut self,
        index: usize,
        mut parts: Vec<Part>,
        mut logprobs: Value,
    ) -> Result<(), ApiError> {
        if parts.is_empty() && !logprobs.is_null() {
            parts.push(Part::Text(String::new()));
        }
        for part in parts {
            let delta = match part {
                Part::Text(text) if text.is_empty() && logprobs.is_null() => continue,
                Part::Text(text) => {
                    let chunk = self.text_chunk(index, text, &logprobs.take());
                    self.ready.push_back(chunk);
                    continue;
                }
                Part::End => continue,
                Part::Call(name) => {
                    let id = self.calls.as_ref().map(|calls| calls.new_id("call_"));
                    let function = json!({"name": name, "arguments": ""});
                    let number = self.n_calls[index];
                    self.n_calls[index] += 1;
                    json!({"tool_calls": [
                        {"index": number, "id": id.transpose()?, "type": "function", "function": function},
                    ]})
                }
                Part::Arguments(piece) => {
                    let number = self.n_calls[index].saturating_sub(1);
                    json!({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
                }
            };
            let chunk = self.chunk(index, delta, logprobs.take(), Value::Null);
            self.ready.push_back(chunk);
        }
        Ok(())
    }

    fn usage(&self) -> String {
        let usage = usage_of(all_usage(&self.usages, self.drawing.n));
        let body = self.head.body(KIND, json!([]), Some(usage));
        body.to_string()
    }
}

impl Chunks for Growing {
    async fn next(&mut self) -> Option<Result<Chunk, ApiError>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(Chunk::of_json(ready)));
            }
            match self.answers.next().await {
                Some(Ok((index, event))) => {
                    if let Err(error) = self.add(index, event) {
                        return Some(Err(error));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None if !self.has_usage => {
                    self.has_usage = true;
                    return Some(Ok(Chunk::of_json(self.usage())));
                }
                None if self.has_receipts => return None,
                None => {
                    self.has_receipts = true;
                    return self.head.last_chunk("chat.completion.chunk", &self.answers);
                }
            }
        }
    }
}
