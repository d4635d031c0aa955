//! `/v1/chat/completions`.

use std::collections::VecDeque;

use axum::response::Response;
use hlx_text::ChatInput;
use hlx_train::engine::{Event, Logprobs, Token, Usage};
use serde_json::{Map, Value, json};

use super::{HARMLESS, fingerprint, finish_reason, logprob, new_id, usage_of};
use crate::app::{Model, Shared, now, respond};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::format::{Form, form_of};
use crate::messages::conversation;
use crate::sampling::{Drawing, max_tokens};
use crate::served::Served;
use crate::stream::{self, Chunks};
use crate::tools::{self, Call, Part, Reader};
use crate::waiting::{Answer, Answers, all_usage};

/// The likeliest tokens that are returned for a token at most.
const MOST_TOP: u64 = 20;

/// What a request wants.
struct Wanted {
    model: String,
    input: ChatInput,
    drawing: Drawing,
    has_tools: bool,
    form: Option<Form>,
    logprobs: Option<usize>,
    most: Option<usize>,
}

/// Reads a request, without a model.
fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let model = fields.text("model")?;
    let model = fields.needed("model", model)?;
    let messages = fields.list("messages")?;
    let mut input = conversation(fields.needed("messages", messages)?)?;
    let drawing = Drawing::take(&mut fields)?;
    let tools = tools::take(&mut fields)?;
    let mut form = match fields.object("response_format")? {
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
    ])?;
    fields.finish()?;
    if let Some(tools) = &tools {
        form = tools.give_to(&mut input)?.or(form);
    }
    Ok(Wanted {
        model,
        input,
        drawing,
        has_tools: tools.is_some(),
        form,
        logprobs,
        most,
    })
}

/// Checks a request, as far as it can be without a model.
pub(crate) fn check(fields: Fields) -> Result<(), ApiError> {
    read(fields).map(drop)
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        model,
        input,
        drawing,
        has_tools,
        form,
        logprobs,
        most,
    } = read(fields)?;
    let model = shared.model(&model)?;
    model.check_number(1, drawing.n)?;
    if has_tools {
        model.check_tools()?;
    }
    let drawing = drawing.with_guides(model.guides(form).await?);
    let prompt = model.chat_prompt(input).await?;
    let most = most.unwrap_or_else(|| model.room_behind(&prompt));
    let requests = drawing.requests(&prompt, most, logprobs);
    let answers = Answers::start(&model, requests)?;
    let head = Head {
        id: new_id("chatcmpl")?,
        created: now(),
        seed: drawing.seed,
        has_tools,
        model,
    };
    if drawing.streams {
        return Ok(stream::respond(Growing::new(head, drawing, answers)));
    }
    let all = answers.collect().await?;
    let usages: Vec<Usage> = all.iter().map(|one| one.usage).collect();
    let choices = all.iter().enumerate();
    let choices = choices.map(|(index, one)| choice(&head, index, one, logprobs.is_some()));
    let choices = choices.collect::<Result<Vec<_>, _>>()?;
    let mut body = head.object("chat.completion");
    body.insert("choices".to_owned(), json!(choices));
    body.insert("usage".to_owned(), usage_of(all_usage(&usages, drawing.n)));
    Ok(respond(&Value::Object(body)))
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

/// What every body of an answer begins with.
struct Head {
    id: String,
    created: u64,
    seed: u64,
    /// Whether the answer may call functions.
    has_tools: bool,
    model: Model,
}

impl Head {
    fn object(&self, kind: &str) -> Map<String, Value> {
        let object = json!({
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model.id,
            "system_fingerprint": fingerprint(),
            "seed": self.seed,
        });
        match object {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }
}

fn choice(
    head: &Head,
    index: usize,
    answer: &Answer,
    has_logprobs: bool,
) -> Result<Value, ApiError> {
    let mut message = json!({"role": "assistant", "content": answer.text, "refusal": null});
    let mut finish = finish_reason(answer.finish.as_ref());
    if head.has_tools {
        let mut reader = Reader::default();
        let mut parts = reader.push(&answer.text);
        parts.extend(reader.finish());
        let (mut text, mut calls) = (String::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text(piece) => text += &piece,
                Part::Call(call) => calls.push(call_of(&call)?),
            }
        }
        if !calls.is_empty() {
            message["content"] = if text.is_empty() {
                Value::Null
            } else {
                json!(text)
            };
            message["tool_calls"] = json!(calls);
            finish = called(finish);
        }
    }
    let mut choice = json!({
        "index": index,
        "message": message,
        "logprobs": has_logprobs.then(|| tokens_of(&head.model, &answer.tokens)),
        "finish_reason": finish,
    });
    if let Some(digest) = &answer.digest {
        choice["logits_sha256"] = json!(digest);
    }
    Ok(choice)
}

fn call_of(call: &Call) -> Result<Value, ApiError> {
    Ok(json!({
        "id": new_id("call")?,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }))
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
    /// For answers that may call functions: what tells calls from text, and how many there were.
    readers: Vec<(Reader, usize)>,
    ready: VecDeque<Value>,
    has_usage: bool,
}

impl Growing {
    fn new(head: Head, drawing: Drawing, answers: Answers) -> Self {
        let mut growing = Self {
            usages: vec![Usage::default(); drawing.n],
            readers: vec![Default::default(); drawing.n],
            has_usage: !drawing.includes_usage,
            ready: VecDeque::new(),
            head,
            drawing,
            answers,
        };
        for index in 0..growing.drawing.n {
            let delta = json!({"role": "assistant", "content": "", "refusal": null});
            let first = growing.chunk(index, delta, Value::Null, Value::Null);
            growing.ready.push_back(first);
        }
        growing
    }

    fn chunk(&self, index: usize, delta: Value, logprobs: Value, finish: Value) -> Value {
        let mut body = self.head.object("chat.completion.chunk");
        let choice =
            json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        body.insert("choices".to_owned(), json!([choice]));
        if self.drawing.includes_usage {
            body.insert("usage".to_owned(), Value::Null);
        }
        Value::Object(body)
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
                let parts = match self.head.has_tools {
                    true => self.readers[index].0.push(&text),
                    false => vec![Part::Text(text)],
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
                if self.head.has_tools {
                    let parts = std::mem::take(&mut self.readers[index].0).finish();
                    self.add_parts(index, parts, Value::Null)?;
                    if self.readers[index].1 > 0 {
                        finish = called(finish);
                    }
                }
                let mut chunk = self.chunk(index, json!({}), Value::Null, finish);
                if let Some(digest) = digest {
                    chunk["choices"][0]["logits_sha256"] = json!(digest);
                }
                self.ready.push_back(chunk);
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
                Part::Text(text) => json!({"content": text}),
                Part::Call(call) => {
                    let mut call = call_of(&call)?;
                    call["index"] = json!(self.readers[index].1);
                    self.readers[index].1 += 1;
                    json!({"tool_calls": [call]})
                }
            };
            let chunk = self.chunk(index, delta, logprobs.take(), Value::Null);
            self.ready.push_back(chunk);
        }
        Ok(())
    }

    fn usage(&self) -> Value {
        let mut body = self.head.object("chat.completion.chunk");
        body.insert("choices".to_owned(), json!([]));
        body.insert(
            "usage".to_owned(),
            usage_of(all_usage(&self.usages, self.drawing.n)),
        );
        Value::Object(body)
    }
}

impl Chunks for Growing {
    async fn next(&mut self) -> Option<Result<Value, ApiError>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(ready));
            }
            match self.answers.next().await {
                Some(Ok((index, event))) => {
                    if let Err(error) = self.add(index, event) {
                        return Some(Err(error));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None if self.has_usage => return None,
                None => {
                    self.has_usage = true;
                    return Some(Ok(self.usage()));
                }
            }
        }
    }
}
