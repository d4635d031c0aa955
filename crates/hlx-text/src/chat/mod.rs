//! Chat templates: messages to text, as the Jinja templates of model folders lay them out.
//!
//! A template comes from strangers and is a program; [`crate::jinja`] carries it out within bounds.

mod input;
mod training;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guard::guarded;
use crate::jinja::{Date, Error, Template, Value};
use crate::{Result, TextError, Tokenizer};
pub use input::{ChatInput, ChatValue, Message};

/// The template's name in messages.
const NAME: &str = "chat_template";

/// A template that lays messages out as text, as `apply_chat_template` of `transformers`: the same text for the same
/// names (`messages`, `tools`, `documents`, `add_generation_prompt`, the special tokens, variables of the user).
/// Nothing in it depends on the day: `strftime_now` finds a date that is stated.
///
/// ```
/// use hlx_text::{ChatTemplate, Message};
///
/// let source = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}\
///               {% if add_generation_prompt %}assistant:{% endif %}";
/// let template = ChatTemplate::new(source, "", "")?;
/// let text = template.render(&[Message::new("user", " hi ")], true)?;
/// assert_eq!(text, "user: hi\nassistant:");
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    template: Template,
    /// The template for conversations with tools, where it is another.
    with_tools: Option<Template>,
    /// Names of special tokens and their texts, and the date's.
    tokens: Vec<(Arc<str>, Value)>,
    /// What `strftime_now` finds, where it is stated.
    date: Option<Date>,
    /// Whether it was said that no date is stated.
    said_date: AtomicBool,
    /// Whether it was said that answers are written in another way once messages follow.
    said_history: AtomicBool,
}

impl ChatTemplate {
    /// Compiles a template; `bos_token` and `eos_token` are what it finds under these names, unless they are empty.
    ///
    /// # Errors
    /// [`TextError::Argument`], in one line, for a template with a fault of syntax, or one that is longer or more
    /// nested than the bounds allow.
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self> {
        let tokens = [("bos_token", bos_token), ("eos_token", eos_token)];
        let tokens = tokens.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self::with_tokens(source, &tokens)
    }

    /// Compiles a template that finds special tokens under these names.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn with_tokens(source: &str, tokens: &[(String, String)]) -> Result<Self> {
        let template = compiled(source)?;
        let tokens = tokens.iter().filter(|(_, text)| !text.is_empty());
        let tokens = tokens.map(|(name, text)| (name.as_str().into(), Value::text(text.as_str())));
        Ok(Self {
            template,
            with_tools: None,
            tokens: tokens.collect(),
            date: None,
            said_date: AtomicBool::new(false),
            said_history: AtomicBool::new(false),
        })
    }

    /// States the date that the template finds, as `YYYY-MM-DD`, with a time `HH:MM` or `HH:MM:SS` after a blank or a
    /// `T`: by `strftime_now`, and as `date_string` ("26 Jul 2024") as the templates of Llama 3 read it. Without one
    /// `strftime_now` finds 2024-07-26.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a text that is not a date.
    pub fn dated(mut self, date: &str) -> Result<Self> {
        let parsed = Date::parse(date).ok_or_else(|| {
            let reason = format!("`{date}` is no date; write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS");
            TextError::argument("date", reason)
        })?;
        self.date = Some(parsed);
        let shown = parsed.format("%d %b %Y").map_err(failed)?;
        self.tokens.push(("date_string".into(), Value::text(shown)));
        Ok(self)
    }

    /// The template of a tokenizer's folder, with the tokenizer's special tokens. Of several templates, conversations
    /// with tools are laid out by the one named `tool_use` and all others by `default`, as `transformers` does.
    ///
    /// # Errors
    /// [`TextError::Argument`] if the tokenizer has none, several and none of them named `default`, or one with a fault
    /// of syntax.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let wrong = |reason: String| Err(TextError::argument(NAME, reason));
        let Some(templates) = tokenizer.chat_templates() else {
            return wrong("the tokenizer has no chat template beside it".to_owned());
        };
        let Some(source) = templates.default_source() else {
            let names = templates.names().collect::<Vec<_>>().join("`, `");
            return wrong(match names.is_empty() {
                true => "the tokenizer has no chat template beside it".to_owned(),
                false => format!(
                    "the tokenizer has the chat templates `{names}`, and none of them is named `default`; put the one \
                     that is meant in chat_template.jinja"
                ),
            });
        };
        let mut template = Self::with_tokens_of(source, tokenizer)?;
        template.with_tools = templates.tools_source().map(compiled).transpose()?;
        Ok(template)
    }

    /// Compiles a template that finds a tokenizer's special tokens.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn with_tokens_of(source: &str, tokenizer: &Tokenizer) -> Result<Self> {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.id_to_token(id));
        let specials = tokenizer.specials();
        let stated = tokenizer.chat_templates();
        let mut tokens = stated.map_or(Vec::new(), |stated| stated.tokens().to_vec());
        for (name, id) in [("bos_token", specials.bos), ("eos_token", specials.eos)] {
            if let Some(text) = text(id) {
                tokens.retain(|(other, _)| other != name);
                tokens.push((name.to_owned(), text));
            }
        }
        Self::with_tokens(source, &tokens)
    }

    /// The template that lays a conversation out.
    fn template_of(&self, input: &ChatInput) -> &Template {
        let with_tools = self.with_tools.as_ref();
        let with_tools = with_tools.filter(|_| input.tools.is_some());
        with_tools.unwrap_or(&self.template)
    }

    /// Lays messages out; `add_generation_prompt` puts the beginning of an answer after them.
    ///
    /// # Errors
    /// As [`ChatTemplate::render_input`].
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let mut input = ChatInput::of(messages);
        input.add_generation_prompt = add_generation_prompt;
        self.render_input(&input)
    }

    /// Lays a conversation with its tools, documents and variables out.
    ///
    /// # Errors
    /// [`TextError::Argument`] for what is larger than the bounds allow, for messages, tools and documents that are
    /// no objects, with what the template raised, what it does that templates cannot, or which bound of steps, elements
    /// or text it passes.
    pub fn render_input(&self, input: &ChatInput) -> Result<String> {
        self.rendered(input, None)
    }

    fn rendered(&self, input: &ChatInput, marks: Option<[char; 2]>) -> Result<String> {
        // If names are equal, the last one counts: the user's variables replace special tokens.
        let mut values = self.tokens.clone();
        values.extend(input.values()?);
        let date = self.date.unwrap_or(Date::FIXED);
        let rendered = guarded(|| self.template_of(input).render(values, &date, marks));
        let rendered = rendered.unwrap_or_else(|panic| Err(broken(&panic)));
        let rendered = rendered.map_err(failed)?;
        if rendered.has_date && self.date.is_none() && !self.said_date.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "the chat template writes a date: 2024-07-26, as none is stated (--date YYYY-MM-DD)"
            );
        }
        Ok(rendered.text)
    }

    fn eos_token(&self) -> Option<&str> {
        let mut tokens = self.tokens.iter();
        let found = tokens.find(|(name, _)| &**name == "eos_token");
        found.and_then(|(_, token)| token.as_str())
    }

    /// Says once that an answer is trained on as it stands before other messages.
    fn say_history(&self, at: usize) {
        if !self.said_history.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the chat template writes answers in another way once messages follow (here message {at}), such as \
                 without what was thought; they are trained on as they stand there"
            );
        }
    }

    /// Lays messages out and returns the byte ranges that a model is to be trained on.
    ///
    /// # Errors
    /// As [`ChatTemplate::render_input_for_training`].
    pub fn render_for_training(&self, messages: &[Message]) -> Result<(String, Vec<Range<usize>>)> {
        self.render_input_for_training(&ChatInput::of(messages))
    }

    /// Lays a conversation out and returns the byte ranges that a model is to be trained on: the template's
    /// `{% generation %}` blocks, or, without any, what the template adds to the prompt for each
    /// message of the assistant.
    ///
    /// # Errors
    /// As [`ChatTemplate::render_input`]; a template without blocks whose answers do not continue from its prompts.
    pub fn render_input_for_training(
        &self,
        input: &ChatInput,
    ) -> Result<(String, Vec<Range<usize>>)> {
        match self.template_of(input).has_generation {
            true => training::by_blocks(self, input),
            false => training::by_prompts(self, input),
        }
    }
}

fn compiled(source: &str) -> Result<Template> {
    guarded(|| Template::new(source))
        .unwrap_or_else(|panic| Err(broken(&panic)))
        .map_err(failed)
}

/// A template that the engine cannot carry out.
fn broken(panic: &str) -> Error {
    Error::new(format!("the template engine failed: {panic}"))
}

/// An error of the template, in one line.
fn failed(error: Error) -> TextError {
    TextError::argument(NAME, error)
}
