//! Conversations.

use std::sync::{Arc, Mutex, PoisonError};

use hlx_core::Device;
use hlx_text::Message;
use hlx_train::chat::Conversation;
use hlx_train::generate::{TextModel, TokenGeneration};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::generation::{check_folder, options_of};
use super::held::{Held, PyLanguageModel};
use super::stream::{Event, PyStream};
use crate::error::{Kind, of_anyhow, raised};

/// A conversation with a model.
#[pyclass(frozen, module = "hlx._hlx", name = "Conversation")]
pub struct PyChat {
    held: Arc<Held>,
    device: Device,
    end_tokens: Vec<u32>,
    conversation: Arc<Mutex<Conversation<Arc<TextModel>>>>,
}

impl PyChat {
    /// Looks at the conversation, unless an answer is being given.
    fn with<T>(&self, body: impl FnOnce(&mut Conversation<Arc<TextModel>>) -> T) -> PyResult<T> {
        match self.conversation.try_lock() {
            Ok(mut conversation) => Ok(body(&mut conversation)),
            Err(std::sync::TryLockError::Poisoned(error)) => Ok(body(&mut error.into_inner())),
            Err(std::sync::TryLockError::WouldBlock) => Err(raised(
                Kind::Runtime,
                "chat: an answer is being given; take it to its end, or close it",
            )),
        }
    }
}

#[pymethods]
impl PyLanguageModel {
    /// Begins a conversation: with what the model is told first, and messages of roles and texts.
    fn chat(
        &self,
        system: Option<&str>,
        date: Option<&str>,
        raw: bool,
        messages: Vec<(String, String)>,
    ) -> PyResult<PyChat> {
        let held = self.held();
        let model = Arc::clone(held.source.text_model().map_err(of_anyhow)?);
        let begin = || -> anyhow::Result<_> {
            let mut conversation = Conversation::new(model, system)?;
            if raw {
                conversation = conversation.raw()?;
            }
            if let Some(date) = date {
                conversation = conversation.dated(date)?;
            }
            let messages = messages.iter().map(|(role, text)| Message::new(role, text));
            Ok(conversation.after(messages.collect()))
        };
        let conversation = begin().map_err(of_anyhow)?;
        Ok(PyChat {
            device: held.device()?,
            end_tokens: held.source.end_tokens().to_vec(),
            held,
            conversation: Arc::new(Mutex::new(conversation)),
        })
    }
}

#[pymethods]
impl PyChat {
    /// The messages so far: roles and texts.
    #[getter]
    fn messages(&self) -> PyResult<Vec<(String, String)>> {
        self.with(|conversation| {
            let messages = conversation.messages().iter();
            messages
                .map(|message| (message.role(), message.content()))
                .collect()
        })
    }

    /// Forgets what was said.
    fn clear(&self) -> PyResult<()> {
        self.with(Conversation::clear)
    }

    /// Says something, and streams the answer; both are remembered when it has ended.
    fn say(&self, text: String, options: &Bound<'_, PyDict>) -> PyResult<PyStream> {
        let options = options_of("say", options)?;
        check_folder(&self.held, &options)?;
        self.with(|_| ())?;
        let conversation = Arc::clone(&self.conversation);
        let ends = self.end_tokens.clone();
        PyStream::start("say", self.device.clone(), move |teller| {
            let generation = TokenGeneration::new(options.max_tokens, options.sampling, ends);
            let tell = &mut |new: &str| teller.tell(Event::Bytes(0, new.as_bytes().to_vec()));
            let mut conversation = conversation.lock().unwrap_or_else(PoisonError::into_inner);
            conversation.say(&text, &generation, &options.stop, tell)?;
            Ok(())
        })
    }
}
