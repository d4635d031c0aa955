//! Chat templates: messages to text, as the Jinja templates of model folders lay them out.

use std::ops::Range;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::{Deserialize, Serialize};

use crate::{Result, TextError, Tokenizer};

/// Surround the text of `{% generation %}` blocks while a template is rendered: two characters of
/// Unicode's private use.
const MARKS: [char; 2] = ['\u{10fffc}', '\u{10fffd}'];
/// Steps that a template may take: more than thousands of messages take.
const FUEL: u64 = 5_000_000;
/// The template's name in messages.
const NAME: &str = "chat_template";

/// A message of a conversation. Other keys than role and content are kept for the template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(Value);

impl Message {
    /// Makes a message.
    pub fn new(role: &str, content: &str) -> Self {
        Self(context! { role => role, content => content })
    }

    /// Who speaks; empty where the message has no role.
    pub fn role(&self) -> String {
        self.text("role")
    }

    /// What is said, where it is a text; else empty.
    pub fn content(&self) -> String {
        self.text("content")
    }

    fn text(&self, key: &str) -> String {
        let value = self.0.get_attr(key).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }
}

/// A template that lays messages out as text, as `apply_chat_template` of `transformers`: the same
/// names (`messages`, `add_generation_prompt`, `bos_token`, `eos_token`, `raise_exception`) and the same white
/// space. Nothing in it depends on the day: `strftime_now` is not defined.
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
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    marks_generation: bool,
}

impl ChatTemplate {
    /// Compiles a template; `bos_token` and `eos_token` are what it finds under these names.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a template with a fault of syntax, in one line.
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(failed)?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| {
            Err::<Value, Error>(Error::new(ErrorKind::InvalidOperation, message))
        });
        let (source, marks_generation) = mark_generation(source);
        environment
            .add_template_owned(NAME, source)
            .map_err(failed)?;
        Ok(Self {
            environment,
            bos_token: bos_token.to_owned(),
            eos_token: eos_token.to_owned(),
            marks_generation,
        })
    }

    /// The template of a tokenizer's folder, with the tokenizer's special tokens.
    ///
    /// # Errors
    /// [`TextError::Argument`] if the tokenizer has none, or one with a fault of syntax.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let source = tokenizer.chat_template().ok_or_else(|| {
            TextError::argument(NAME, "the tokenizer has no chat template beside it")
        })?;
        Self::with_tokens_of(source, tokenizer)
    }

    /// Compiles a template that finds a tokenizer's special tokens.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn with_tokens_of(source: &str, tokenizer: &Tokenizer) -> Result<Self> {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.id_to_token(id));
        let specials = tokenizer.specials();
        let (bos, eos) = (text(specials.bos), text(specials.eos));
        Self::new(source, &bos.unwrap_or_default(), &eos.unwrap_or_default())
    }

    /// Lays messages out; `add_generation_prompt` puts the beginning of an answer behind them.
    ///
    /// # Errors
    /// [`TextError::Argument`] with what the template raised, or what it does that templates cannot.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let text = self.rendered(messages, add_generation_prompt)?;
        Ok(match self.marks_generation {
            true => text.replace(MARKS, ""),
            false => text,
        })
    }

    fn rendered(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(failed)?;
        let messages: Value = messages.iter().map(|message| message.0.clone()).collect();
        let rendered = template.render(context! {
            messages => messages,
            add_generation_prompt => add_generation_prompt,
            bos_token => self.bos_token.as_str(),
            eos_token => self.eos_token.as_str(),
        });
        rendered.map_err(failed)
    }

    /// Lays messages out and returns the byte ranges that a model is to be trained on: the template's
    /// `{% generation %}` blocks, or, without any, what the template adds to the prompt for each
    /// message of the assistant.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`]; a template without blocks that lays earlier messages out in another way
    /// once later ones follow.
    pub fn render_for_training(&self, messages: &[Message]) -> Result<(String, Vec<Range<usize>>)> {
        let text = self.rendered(messages, false)?;
        if self.marks_generation {
            return Ok(take_marks(&text));
        }
        let mut answers = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            if message.role() != "assistant" {
                continue;
            }
            let prompt = self.rendered(&messages[..at], true)?;
            let answer = self.rendered(&messages[..=at], false)?;
            let end = answers.last().map_or(0, |last: &Range<usize>| last.end);
            let grows = answer.starts_with(&prompt) && text.starts_with(&answer);
            let follows = grows && prompt.len() >= end;
            if !follows {
                let reason = format!(
                    "the template changes what is before message {at} once it follows; mark the answers \
                     with {{% generation %}} and {{% endgeneration %}}"
                );
                return Err(TextError::argument(NAME, reason));
            }
            answers.push(prompt.len()..answer.len());
        }
        Ok((text, answers))
    }
}

/// An error of the template, in one line.
fn failed(error: Error) -> TextError {
    let place = error.line().map(|line| format!("line {line}: "));
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    TextError::argument(NAME, place.unwrap_or_default() + &what)
}

/// Replaces `{% generation %}` and `{% endgeneration %}`, which Jinja does not know, by conditions that
/// print marks; signs of trimming are kept.
fn mark_generation(source: &str) -> (String, bool) {
    let (mut marked, mut found) = (String::with_capacity(source.len()), false);
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start + 2..].find("%}") else {
            break;
        };
        let end = start + 2 + length + 2;
        let inner = &rest[start + 2..end - 2];
        let mark = match inner.trim_matches(['-', '+']).trim() {
            "generation" => Some(MARKS[0]),
            "endgeneration" => Some(MARKS[1]),
            _ => None,
        };
        match mark {
            Some(mark) => {
                let sign = |char: Option<char>| char.filter(|char| ['-', '+'].contains(char));
                let sign = |char| sign(char).map_or(String::new(), String::from);
                let (left, right) = (sign(inner.chars().next()), sign(inner.chars().next_back()));
                marked.push_str(&rest[..start]);
                marked += &format!("{{%{left} if true %}}{mark}{{% endif {right}%}}");
                found = true;
            }
            None => marked.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    marked.push_str(rest);
    (marked, found)
}

/// Takes the marks out of a text, and returns what was between them.
fn take_marks(marked: &str) -> (String, Vec<Range<usize>>) {
    let (mut text, mut ranges) = (String::with_capacity(marked.len()), Vec::new());
    let mut start = None;
    for char in marked.chars() {
        if char == MARKS[0] {
            start.get_or_insert(text.len());
        } else if char == MARKS[1] {
            ranges.extend(start.take().map(|start| start..text.len()));
        } else {
            text.push(char);
        }
    }
    (text, ranges)
}
