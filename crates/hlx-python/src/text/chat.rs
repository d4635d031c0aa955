//! Conversations as texts and tokens, laid out by a chat template.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use hlx_text::{ChatInput, ChatTemplate, ChatValue, Message, TextError};
use pyo3::prelude::*;

use super::tokenizer::PyTokenizer;
use super::work::of_text;
use crate::error::value_error;
use crate::warnings::warned;

/// Messages, tools, documents and the user's variables.
type Parts = (
    Vec<Message>,
    Option<Vec<ChatValue>>,
    Option<Vec<ChatValue>>,
    BTreeMap<String, ChatValue>,
);

/// A conversation of its JSON.
fn input_of(conversation: &str, add_generation_prompt: bool) -> PyResult<ChatInput> {
    let parts: Result<Parts, _> = serde_json::from_str(conversation);
    let (messages, tools, documents, variables) =
        parts.map_err(|error| value_error(format!("apply_chat_template: {error}")))?;
    Ok(ChatInput {
        messages,
        tools,
        documents,
        add_generation_prompt,
        variables,
    })
}

impl PyTokenizer {
    /// The template of a source, or the tokenizer's own, that finds a date. The last one is kept.
    fn template(
        &self,
        source: Option<&str>,
        date: Option<&str>,
    ) -> Result<Arc<ChatTemplate>, TextError> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, at, template)) = &*compiled
            && of.as_deref() == source
            && at.as_deref() == date
        {
            return Ok(Arc::clone(template));
        }
        let template = match source {
            Some(source) => ChatTemplate::with_tokens_of(source, &self.tokenizer)?,
            None => ChatTemplate::of(&self.tokenizer)?,
        };
        let template = match date {
            Some(date) => template.dated(date)?,
            None => template,
        };
        let template = Arc::new(template);
        let key = (source.map(str::to_owned), date.map(str::to_owned));
        *compiled = Some((key.0, key.1, Arc::clone(&template)));
        Ok(template)
    }

    /// The tokens of a text whose ranges alone are trained on. The parts are encoded one by one, as they are when the
    /// model answers.
    fn encode_parts(
        &self,
        text: &str,
        trained: &[Range<usize>],
    ) -> Result<(Vec<u32>, Vec<bool>), TextError> {
        let (mut ids, mut mask, mut at) = (Vec::new(), Vec::new(), 0);
        let mut add = |part: &str, is_trained: bool| -> Result<(), TextError> {
            ids.extend(self.tokenizer.encode(part)?);
            mask.resize(ids.len(), is_trained);
            Ok(())
        };
        for range in trained {
            add(&text[at..range.start], false)?;
            add(&text[range.clone()], true)?;
            at = range.end;
        }
        add(&text[at..], false)?;
        Ok((ids, mask))
    }
}

#[pymethods]
impl PyTokenizer {
    /// The source of the template of a name, `default` or `tool_use`.
    fn chat_template(&self, name: &str) -> Option<String> {
        let templates = self.tokenizer.chat_templates()?;
        let source = match name {
            "tool_use" => templates.tools_source(),
            _ => templates.default_source(),
        };
        source.map(str::to_owned)
    }

    /// The text of a conversation.
    fn render(
        &self,
        py: Python<'_>,
        conversation: &str,
        source: Option<&str>,
        date: Option<&str>,
        add_generation_prompt: bool,
    ) -> PyResult<String> {
        let input = input_of(conversation, add_generation_prompt)?;
        let render = || self.template(source, date)?.render_input(&input);
        let rendered = warned(py, || py.detach(render))?;
        rendered.map_err(of_text)
    }

    /// The tokens of a conversation, and whether each is trained on.
    fn encode_trained(
        &self,
        py: Python<'_>,
        conversation: &str,
        source: Option<&str>,
        date: Option<&str>,
    ) -> PyResult<(Vec<u32>, Vec<bool>)> {
        let input = input_of(conversation, false)?;
        let encode = || {
            let template = self.template(source, date)?;
            let (text, trained) = template.render_input_for_training(&input)?;
            self.encode_parts(&text, &trained)
        };
        let encoded = warned(py, || py.detach(encode))?;
        encoded.map_err(of_text)
    }
}
