//! Conversations with a model, laid out by its chat template.

use anyhow::{Result, ensure};
use hlx_nn::CausalModel;
use hlx_text::{ChatTemplate, Message};

use crate::generate::{Held, TextModel, TokenGeneration};

/// A conversation: what was said so far.
#[derive(Debug)]
pub struct Conversation<'a> {
    model: &'a TextModel,
    template: ChatTemplate,
    messages: Vec<Message>,
    /// Messages that every conversation begins with.
    n_first: usize,
    /// What the model has read, from one answer to the next.
    held: Option<Held>,
}

impl<'a> Conversation<'a> {
    /// Begins a conversation, with a message of the role `system` if there is one.
    ///
    /// # Errors
    /// A model without a chat template, or one with a fault of syntax.
    pub fn new(model: &'a TextModel, system: Option<&str>) -> Result<Self> {
        let template = ChatTemplate::of(&model.tokenizer)?;
        let messages: Vec<Message> = system
            .map(|text| Message::new("system", text))
            .into_iter()
            .collect();
        Ok(Self {
            model,
            template,
            n_first: messages.len(),
            messages,
            held: None,
        })
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Says something and returns the answer, which `tell` gets while it grows. Both are kept; after an
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
        let text = self.template.render(&self.messages, true)?;
        let ids = self.model.tokenizer.encode(&text)?;
        let positions = self.model.model.max_positions();
        ensure!(
            ids.len() <= positions,
            "the conversation takes {} positions, and the model has {positions}",
            ids.len()
        );
        let held = &mut self.held;
        self.model.write_held(held, &ids, options, stop, tell)
    }

    /// Forgets what was said; the message of the role `system` stays.
    pub fn clear(&mut self) {
        self.messages.truncate(self.n_first);
    }
}
