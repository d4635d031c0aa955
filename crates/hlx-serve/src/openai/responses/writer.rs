//! The items of an answer, and the events of their growth.

use std::collections::VecDeque;

use hlx_train::engine::Token;
use serde_json::{Value, json};

use crate::app::Model;
use crate::error::ApiError;
use crate::openai::chat::token_of;
use crate::openai::new_id;
use crate::tools::{Calls, Part, Reader};

/// Makes items and events from the pieces of an answer.
pub(super) struct Writer {
    model: Model,
    has_logprobs: bool,
    calls: Option<Calls>,
    /// What tells calls from text, where functions may be called.
    reader: Option<Reader>,
    /// Those that are whole.
    items: Vec<Value>,
    /// The message that grows.
    open: Option<Message>,
    /// The call that grows.
    call: Option<Value>,
    events: VecDeque<Value>,
    n_events: usize,
}

#[derive(Default)]
struct Message {
    id: String,
    text: String,
    logprobs: Vec<Value>,
}

impl Message {
    fn part(&self) -> Value {
        json!({"type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs})
    }

    fn item(&self, status: &str, content: &[Value]) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }
}

impl Writer {
    pub fn new(model: Model, has_logprobs: bool, calls: Option<Calls>) -> Self {
        Self {
            model,
            has_logprobs,
            reader: calls.as_ref().map(Calls::reader),
            calls,
            items: Vec::new(),
            open: None,
            call: None,
            events: VecDeque::new(),
            n_events: 0,
        }
    }

    /// The items that are whole.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    pub fn n_events(&self) -> usize {
        self.n_events
    }

    pub fn next_event(&mut self) -> Option<Value> {
        self.events.pop_front()
    }

    /// Adds an event.
    pub fn push(&mut self, mut event: Value) {
        event["sequence_number"] = json!(self.n_events);
        self.n_events += 1;
        self.events.push_back(event);
    }

    /// Adds an event of the item that grows.
    fn push_of_item(&mut self, id: &str, mut event: Value) {
        event["item_id"] = json!(id);
        event["output_index"] = json!(self.items.len());
        self.push(event);
    }

    /// Adds text with the tokens that begin in it.
    pub fn add(&mut self, text: &str, tokens: &[Token]) -> Result<(), ApiError> {
        let known = tokens.iter().filter_map(|token| token.logprobs.as_ref());
        let known = known.filter(|_| self.has_logprobs);
        let mut logprobs: Vec<Value> = known.map(|one| token_of(&self.model, one)).collect();
        let parts = match &mut self.reader {
            Some(reader) => reader.push(text),
            None => vec![Part::Text(text.to_owned())],
        };
        for part in parts {
            self.add_part(part, &mut logprobs)?;
        }
        self.add_part(Part::Text(String::new()), &mut logprobs)
    }

    fn add_part(&mut self, part: Part, logprobs: &mut Vec<Value>) -> Result<(), ApiError> {
        match part {
            Part::Text(text) if text.is_empty() && logprobs.is_empty() => Ok(()),
            Part::Text(text) => self.add_text(&text, std::mem::take(logprobs)),
            Part::Call(name) => self.begin_call(&name),
            Part::Arguments(piece) => {
                self.add_arguments(&piece);
                Ok(())
            }
            Part::End => {
                self.end_call("completed");
                Ok(())
            }
        }
    }

    fn add_text(&mut self, text: &str, logprobs: Vec<Value>) -> Result<(), ApiError> {
        let mut message = match self.open.take() {
            Some(message) => message,
            None => {
                let message = Message {
                    id: new_id("msg_")?,
                    ..Message::default()
                };
                let (id, item) = (message.id.clone(), message.item("in_progress", &[]));
                let index = self.items.len();
                self.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
                let part = message.part();
                self.push_of_item(
                    &id,
                    json!({"type": "response.content_part.added", "content_index": 0, "part": part}),
                );
                message
            }
        };
        message.text += text;
        message.logprobs.extend(logprobs.iter().cloned());
        let delta = json!({
            "type": "response.output_text.delta",
            "content_index": 0,
            "delta": text,
            "logprobs": logprobs,
        });
        self.push_of_item(&message.id, delta);
        self.open = Some(message);
        Ok(())
    }

    fn begin_call(&mut self, name: &str) -> Result<(), ApiError> {
        self.close("completed");
        let call_id = self.calls.as_ref().map(|calls| calls.new_id("call_"));
        let item = json!({
            "id": new_id("fc_")?,
            "type": "function_call",
            "status": "in_progress",
            "call_id": call_id.transpose()?,
            "name": name,
            "arguments": "",
        });
        let index = self.items.len();
        self.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": item}),
        );
        self.call = Some(item);
        Ok(())
    }

    fn add_arguments(&mut self, piece: &str) {
        let Some(mut item) = self.call.take() else {
            return;
        };
        let so_far = item["arguments"].as_str().unwrap_or_default();
        item["arguments"] = json!(format!("{so_far}{piece}"));
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        self.push_of_item(
            &id,
            json!({"type": "response.function_call_arguments.delta", "delta": piece}),
        );
        self.call = Some(item);
    }

    fn end_call(&mut self, status: &str) {
        let Some(mut item) = self.call.take() else {
            return;
        };
        item["status"] = json!(status);
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        let done = json!({
            "type": "response.function_call_arguments.done",
            "name": item["name"],
            "arguments": item["arguments"],
        });
        self.push_of_item(&id, done);
        let index = self.items.len();
        self.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
        self.items.push(item);
    }

    /// Ends the message that grows.
    fn close(&mut self, status: &str) {
        let Some(message) = self.open.take() else {
            return;
        };
        let part = message.part();
        let text = json!({
            "type": "response.output_text.done",
            "content_index": 0,
            "text": message.text,
            "logprobs": message.logprobs,
        });
        self.push_of_item(&message.id, text);
        self.push_of_item(
            &message.id,
            json!({"type": "response.content_part.done", "content_index": 0, "part": part}),
        );
        let item = message.item(status, &[part]);
        let index = self.items.len();
        self.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
        self.items.push(item);
    }

    /// Ends the answer; one that says nothing is an empty message.
    pub fn finish(&mut self, status: &str) -> Result<(), ApiError> {
        let rest = self.reader.take().map(|mut reader| reader.finish());
        for part in rest.unwrap_or_default() {
            match part {
                // An answer that was cut off leaves its last call as it is.
                Part::End => self.end_call(status),
                part => self.add_part(part, &mut Vec::new())?,
            }
        }
        if self.items.is_empty() && self.open.is_none() {
            self.add_text("", Vec::new())?;
        }
        self.close(status);
        Ok(())
    }
}
