//! Conversations with a model, laid out by its chat template.

use anyhow::{Context as _, Result, ensure};
use hlx_nn::CausalModel;
use hlx_text::{ChatTemplate, Message};

use crate::generate::{TextModel, TokenGeneration};

/// A conversation: what was said so far.
#[derive(Debug)]
pub struct Conversation<'a> {
    model: &'a TextModel,
    template: ChatTemplate,
    messages: Vec<Message>,
    /// Messages that every conversation begins with.
    n_first: usize,
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
    /// A conversation that leaves no position for an answer, a template that raises, and what the device
    /// reports.
    pub fn say(
        &mut self,
        text: &str,
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(&str),
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
        &self,
        options: &TokenGeneration,
        stop: &[String],
        tell: &mut dyn FnMut(&str),
    ) -> Result<String> {
        let text = self.template.render(&self.messages, true)?;
        let ids = self.model.tokenizer.encode(&text)?;
        let positions = self.model.model.max_positions();
        ensure!(
            ids.len() <= positions,
            "the conversation takes {} positions, and the model has {positions}",
            ids.len()
        );
        let mut tell = |_: usize, new: &str| tell(new);
        let answers = self.model.write(&[ids], options, stop, &mut tell)?;
        answers.into_iter().next().context("no answer")
    }

    /// Forgets what was said; the message of the role `system` stays.
    pub fn clear(&mut self) {
        self.messages.truncate(self.n_first);
    }
}
