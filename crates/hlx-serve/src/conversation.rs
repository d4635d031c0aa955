//! Conversations, from what a request says to the tokens of a model.

use std::sync::Arc;

use hlx_text::{ChatInput, TextError};
use hlx_train::engine::Guides;

use crate::app::Model;
use crate::error::ApiError;
use crate::format::Form;
use crate::served::Served;
use crate::tools::{Calls, Style, Tools};

/// What is said, which functions may be called, and the form of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    input: ChatInput,
    tools: Option<Arc<Tools>>,
    form: Option<Form>,
}

/// A conversation as a model reads it.
#[derive(Debug)]
pub(crate) struct Laid {
    pub prompt: Vec<u32>,
    /// What restricts the answer.
    pub guides: Option<Guides>,
    /// How calls in the answer are read; `None` where it has none.
    pub calls: Option<Calls>,
    /// Special tokens that are part of the answer's text: calls are made of them.
    pub marks: Vec<u32>,
}

impl Conversation {
    pub fn new(
        mut input: ChatInput,
        tools: Option<Tools>,
        form: Option<Form>,
    ) -> Result<Self, ApiError> {
        if let Some(tools) = &tools {
            tools.give_to(&mut input)?;
        }
        Ok(Self {
            input,
            tools: tools.map(Arc::new),
            form,
        })
    }

    /// The functions that may be called.
    pub fn tools(&self) -> Option<&Tools> {
        self.tools.as_deref()
    }
}

impl Model {
    /// Lays a conversation out for the model.
    pub async fn lay_out(&self, conversation: Conversation) -> Result<Laid, ApiError> {
        let model = self.clone();
        // A template is a program and a schema may be large: both may take their time.
        let work = tokio::task::spawn_blocking(move || model.laid_out(conversation));
        let done = work.await;
        done.map_err(|error| ApiError::internal(error.to_string()))?
    }
}

impl Served {
    fn laid_out(&self, conversation: Conversation) -> Result<Laid, ApiError> {
        let Conversation { input, tools, form } = conversation;
        let tokenizer = &self.text().tokenizer;
        let calls = tools.map(|tools| self.calls(tools)).transpose()?;
        let form = match &calls {
            Some(calls) => calls.form(tokenizer, form),
            None => form,
        };
        let prompt = self.encode_chat(&input)?;
        let guides = form.map(|form| self.formats()?.guides(form)).transpose()?;
        let marks = calls
            .as_ref()
            .map_or(Vec::new(), |calls| calls.style.marks(tokenizer));
        Ok(Laid {
            prompt,
            guides,
            calls,
            marks,
        })
    }

    /// How the model calls functions.
    fn calls(&self, tools: Arc<Tools>) -> Result<Calls, ApiError> {
        match self.style() {
            Some(style) => Ok(Calls { style, tools }),
            None => {
                let known = Style::KNOWN;
                let reason = format!(
                    "the chat template of {} writes no calls in a form that is known here: {known}",
                    self.id
                );
                Err(ApiError::unsupported("tools", reason))
            }
        }
    }

    /// The tokens of a conversation, up to where the answer begins.
    fn encode_chat(&self, input: &ChatInput) -> Result<Vec<u32>, ApiError> {
        const NAME: &str = "messages";
        let text = self.text();
        let wrong = |error: TextError| ApiError::of_parameter(NAME, error);
        let ids = match (self.template(), input.messages.last()) {
            (Some(template), _) => {
                let laid_out = template.render_input(input).map_err(wrong)?;
                text.tokenizer.encode(&laid_out).map_err(wrong)?
            }
            (None, Some(last)) if text.preparation.answers_inputs() => {
                return self.encode(NAME, &last.content());
            }
            (None, _) => {
                let reason = format!(
                    "the model {} has no chat template; /v1/completions continues a text",
                    self.id
                );
                return Err(ApiError::of_parameter(NAME, reason).with_code("no_chat_template"));
            }
        };
        self.check(NAME, &ids)?;
        Ok(ids)
    }
}
