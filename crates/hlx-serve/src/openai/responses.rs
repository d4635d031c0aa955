//! `/v1/responses`: texts and calls of functions, whole or as events. Nothing is stored.

mod said;
mod writer;

use axum::response::Response;
use hlx_train::engine::{Event, Finish, Usage};
use serde_json::{Value, json};

use super::{HARMLESS, new_id, shortest};
use crate::app::{Shared, respond};
use crate::clock::now;
use crate::conversation::Conversation;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::format::form_of;
use crate::sampling::{Drawing, max_tokens};
use crate::stream::{self, Chunk, Chunks};
use crate::waiting::{Answer, Answers};
use said::{conversation, shown_tools, tools};
use writer::Writer;

/// What `include` may name.
const LOGPROBS: &str = "message.output_text.logprobs";
const MOST_TOP: u64 = 20;

/// What a request wants.
pub(crate) struct Wanted {
    model: String,
    instructions: Option<String>,
    conversation: Conversation,
    drawing: Drawing,
    /// The functions and the form as the request says them.
    shown_tools: Value,
    text: Value,
    logprobs: Option<usize>,
    most: Option<usize>,
    metadata: Value,
}

/// Reads a request, without a model.
pub(crate) fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let model = fields.text_needed("model")?;
    let instructions = fields.text("instructions")?;
    let input = conversation(&mut fields, instructions.as_deref())?;
    let shown_tools = shown_tools(&fields);
    let tools = tools(&mut fields)?;
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
        text.pass_if(&[("verbosity", &[json!("medium")])])?;
        text.finish()?;
    }
    let metadata = fields.take("metadata").unwrap_or_else(|| json!({}));
    fields.pass(&HARMLESS);
    fields.pass_if(&[
        ("store", &[json!(false)]),
        ("background", &[json!(false)]),
        ("service_tier", &[json!("auto"), json!("default")]),
        ("truncation", &[json!("disabled")]),
        ("reasoning", &[json!({})]),
    ])?;
    if let Some(mut options) = fields.object("stream_options")? {
        options.pass(&["include_obfuscation"]);
        options.finish()?;
    }
    fields.finish()?;
    Ok(Wanted {
        model,
        instructions,
        conversation: Conversation::new(input, tools, form)?,
        drawing,
        shown_tools,
        text: shown_text,
        logprobs,
        most,
        metadata,
    })
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        model,
        instructions,
        conversation,
        drawing,
        shown_tools,
        text: shown_text,
        logprobs,
        most,
        metadata,
    } = read(fields)?;
    let model = shared.model(&model)?;
    let (choice, is_parallel) = match conversation.tools() {
        Some(tools) => (tools.choice.clone(), tools.is_parallel()),
        None if shown_tools == json!([]) => (json!("auto"), true),
        None => (json!("none"), true),
    };
    let mut laid = model.lay_out(conversation).await?;
    let drawing = drawing.of(&mut laid);
    let prompt = &laid.prompt;
    let room = most.unwrap_or_else(|| model.room_behind(prompt));
    let answers = Answers::start(
        &model,
        drawing.requests(prompt, room, logprobs),
        &drawing.wish,
    )?;
    let sampling = drawing.sampling();
    let begun = json!({
        "id": new_id("resp_")?,
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
        "parallel_tool_calls": is_parallel,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "seed": drawing.seed,
        "service_tier": "default",
        "store": false,
        "temperature": shortest(sampling.temperature),
        "text": shown_text,
        "tool_choice": choice,
        "tools": shown_tools,
        "top_p": shortest(sampling.top_p),
        "truncation": "disabled",
        "usage": null,
    });
    let mut shape = Shape {
        begun,
        writer: Writer::new(model, logprobs.is_some(), laid.calls),
    };
    if drawing.streams {
        return Ok(stream::respond(Growing::new(shape, answers)));
    }
    let (mut answers, mut answer) = (answers, Answer::default());
    while let Some(event) = answers.next().await {
        let (_, event) = event?;
        if let Some(mut body) = shape.add(&mut answer, event)? {
            answers.shown()?.add_to(&mut body);
            return Ok(respond(&body));
        }
    }
    Err(ApiError::internal("the answer has no end"))
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

/// What bodies are made of.
struct Shape {
    begun: Value,
    writer: Writer,
}

impl Shape {
    /// The body of an answer that has ended.
    fn whole(&self, status: &str, answer: &Answer) -> Value {
        let mut body = self.begun.clone();
        body["status"] = json!(status);
        if status == "incomplete" {
            body["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        body["output"] = json!(self.writer.items());
        body["usage"] = usage_of(answer.usage);
        if let Some(digest) = &answer.digest {
            body["logits_sha256"] = json!(digest);
        }
        body
    }

    /// Adds what happens to the answer; returns its body once it has ended.
    fn add(&mut self, answer: &mut Answer, event: Event) -> Result<Option<Value>, ApiError> {
        if let Event::Piece { text, tokens } = &event {
            self.writer.add(text, tokens)?;
        }
        answer.add(event);
        let status = match &answer.finish {
            None => return Ok(None),
            Some(Finish::Length) => "incomplete",
            Some(_) => "completed",
        };
        self.writer.finish(status)?;
        Ok(Some(self.whole(status, answer)))
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
    shape: Shape,
    answers: Answers,
    answer: Answer,
}

impl Growing {
    fn new(mut shape: Shape, answers: Answers) -> Self {
        let begun = shape.begun.clone();
        let writer = &mut shape.writer;
        writer.push(json!({"type": "response.created", "response": begun}));
        writer.push(json!({"type": "response.in_progress", "response": begun}));
        Self {
            shape,
            answers,
            answer: Answer::default(),
        }
    }
}

impl Chunks for Growing {
    const NAMED: bool = true;

    async fn next(&mut self) -> Option<Result<Chunk, ApiError>> {
        loop {
            if let Some(ready) = self.shape.writer.next_event() {
                return Some(Ok(Chunk::named(&ready)));
            }
            let event = match self.answers.next().await? {
                Ok((_, event)) => event,
                Err(error) => return Some(Err(error)),
            };
            match self.shape.add(&mut self.answer, event) {
                Ok(None) => {}
                Ok(Some(mut body)) => {
                    match self.answers.shown() {
                        Ok(shown) => shown.add_to(&mut body),
                        Err(error) => return Some(Err(error)),
                    }
                    let name = format!("response.{}", body["status"].as_str().unwrap_or_default());
                    self.shape
                        .writer
                        .push(json!({"type": name, "response": body}));
                }
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
            "sequence_number": self.shape.writer.n_events(),
        })
    }
}
