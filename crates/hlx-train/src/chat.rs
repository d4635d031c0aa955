//! Conversations with a model, laid out by its chat template.

use std::ops::Deref;

use anyhow::{Context as _, Result, ensure};
use hlx_nn::CausalModel;
use hlx_text::{ChatTemplate, Message};

use crate::generate::{Held, TextModel, TokenGeneration};

/// A conversation: what was said so far.
#[derive(Debug)]
pub struct Conversation<M> {
    model: M,
    /// A model of pairs may have none: each message is an input then.
    template: Option<ChatTemplate>,
    messages: Vec<Message>,
    /// Messages that every conversation begins with.
    n_first: usize,
    /// For inputs: whether no separator is put after them.
    raw: bool,
    /// What the model has read, from one answer to the next.
    held: Option<Held>,
}

impl<M: Deref<Target = TextModel>> Conversation<M> {
    /// Begins a conversation, with a message of the role `system` if there is one.
    ///
    /// # Errors
    /// A model without a chat template that does not answer inputs, or a template with a fault of syntax; a message
    /// of the role `system` without a template.
    pub fn new(model: M, system: Option<&str>) -> Result<Self> {
        let has_none = model.tokenizer.chat_template().is_none();
        let template = match has_none && model.preparation.answers_inputs() {
            true => None,
            false => Some(ChatTemplate::of(&model.tokenizer)?),
        };
        ensure!(
            template.is_some() || system.is_none(),
            "system: the model answers inputs one by one, and has no chat template for such a message"
        );
        let messages: Vec<Message> = system
            .map(|text| Message::new("system", text))
            .into_iter()
            .collect();
        Ok(Self {
            model,
            template,
            n_first: messages.len(),
            messages,
            raw: false,
            held: None,
        })
    }

    /// Puts no separator after inputs: they end with one.
    ///
    /// # Errors
    /// A model with a chat template, which lays its conversations out.
    pub fn raw(mut self) -> Result<Self> {
        ensure!(
            self.template.is_none(),
            "raw: the model's chat template lays the conversation out"
        );
        self.raw = true;
        Ok(self)
    }

    /// States the date that the chat template finds ([`ChatTemplate::dated`]).
    ///
    /// # Errors
    /// A text that is not a date; a model without a chat template.
    pub fn dated(mut self, date: &str) -> Result<Self> {
        let template = self.template.take();
        let template = template.context("date: the model has no chat template to find it")?;
        self.template = Some(template.dated(date)?);
        Ok(self)
    }

    /// Begins with messages that were said before, after that of the role `system`.
    #[must_use]
    pub fn after(mut self, messages: Vec<Message>) -> Self {
        self.messages.extend(messages);
        self.n_first = self.messages.len();
        self
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Says something and returns the answer, which `tell` gets while it grows. Both are remembered; after an
    /// error neither is.
    ///
    /// # Errors
    /// A conversation that leaves no position for an answer, a template that raises, what the device reports,
    /// and that of `tell`, which ends the answer.
    pub fn say(
        &mut self,
        text: &str,
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<String> {
        self.messages.push(Message::new("user", text));
        let answer = self.answer(options, stop, tell);
        match &answer {
            Ok(answer) => self.messages.push(Message::new("assistant", answer)),
            Err(_) => _ = self.messages.pop(),
        }
        answer
    }

    fn answer(
        &mut self,
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<String> {
        let ids = match (&self.template, self.messages.last()) {
            (Some(template), _) => {
                let text = template.render(&self.messages, true)?;
                self.model.tokenizer.encode(&text)?
            }
            (None, last) => {
                let input = last.map(Message::content).unwrap_or_default();
                self.model.encode_prompt(&input, self.raw)?
            }
        };
        let positions = self.model.model.max_positions();
        ensure!(
            ids.len() <= positions,
            "the conversation takes {} positions, and the model has {positions}: clear it, or say less",
            ids.len()
        );
        let held = &mut self.held;
        self.model.write_held(held, &ids, options, stop, tell)
    }

    /// Forgets what was said; what the conversation began with stays.
    pub fn clear(&mut self) {
        self.messages.truncate(self.n_first);
    }
}
