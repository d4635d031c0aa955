//! Chat templates: messages to text, as the Jinja templates of model folders lay them out.
//!
//! A template comes from strangers and is a program. It is bounded before it is parsed ([`bounds`]), its values are
//! bounded while it is rendered ([`rewrite`], [`values`]), and it finds only what was read for how far values grow in
//! it ([`names`], [`library`]).

mod bounds;
mod generation;
mod input;
mod library;
mod names;
mod rewrite;
mod values;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::guard::guarded;
use crate::{Result, TextError, Tokenizer};
use generation::{MARKS, mark_generation, take_marks};
use input::Pairs;
pub use input::{ChatInput, ChatValue, Message};
use values::{MAX_TEXT_BYTES, Size};

/// Steps that a template may take: more than thousands of messages take. The engine counts 64 bytes that are made
/// as one.
const FUEL: u64 = 5_000_000;
/// What the engine allows macros and blocks that call themselves: a macro counts as four.
const MAX_RECURSION: usize = 200;
/// The template's name in messages.
const NAME: &str = "chat_template";

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
    /// [`TextError::Argument`], in one line, for a template with a fault of syntax, or one that is longer or more
    /// nested than the bounds allow.
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self> {
        let (source, marks_generation) = mark_generation(source);
        let environment = guarded(|| compiled(&source))
            .unwrap_or_else(|panic| Err(broken(&panic)))
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
        let text = self.rendered(input)?;
        Ok(match self.marks_generation {
            true => text.replace(MARKS, ""),
            false => text,
        })
    }

    fn rendered(&self, input: &ChatInput) -> Result<String> {
        let given = input.values()?;
        let values = self.with_tokens(given).into_iter();
        let pairs = values.map(|(name, value)| (name.into(), value));
        let values = Value::from_object(Pairs(pairs.collect()));
        Size::of(&values).map_err(failed)?;
        if self.marks_generation && values::holds(&values, &MARKS) {
            let reason = "the conversation holds U+10FFFC or U+10FFFD, which mark the answers of this template";
            return Err(TextError::argument(NAME, reason));
        }
        let text = guarded(|| written(&self.environment, values));
        text.unwrap_or_else(|panic| Err(broken(&panic)))
            .map_err(failed)
    }

    /// Adds the special tokens, where no variable of the user has their names.
    fn with_tokens(&self, mut values: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        for (name, token) in [
            ("bos_token", &self.bos_token),
            ("eos_token", &self.eos_token),
        ] {
            values
                .entry(name.to_owned())
                .or_insert_with(|| token.as_str().into());
        }
        values
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
    /// As [`ChatTemplate::render_input`]; a template without blocks that lays earlier messages out in another way
    /// once later ones follow.
    pub fn render_input_for_training(
        &self,
        input: &ChatInput,
    ) -> Result<(String, Vec<Range<usize>>)> {
        let whole = |n: usize, add_generation_prompt: bool| {
            let mut part = input.clone();
            part.messages.truncate(n);
            part.add_generation_prompt = add_generation_prompt;
            self.rendered(&part)
        };
        let text = whole(input.messages.len(), false)?;
        if self.marks_generation {
            return Ok(take_marks(&text));
        }
        let mut answers = Vec::new();
        for (at, message) in input.messages.iter().enumerate() {
            if message.role() != "assistant" {
                continue;
            }
            let prompt = whole(at, true)?;
            let answer = whole(at + 1, false)?;
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

/// The environment of one template, with its bounds in it.
fn compiled(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax.clone());
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_RECURSION);
    // Else a debug build would print all variables into its errors.
    environment.set_debug(false);
    library::install(&mut environment);
    let source = rewrite::rewritten(source, &syntax, &mut environment)?;
    environment.add_template_owned(NAME, source)?;
    Ok(environment)
}

/// What a template writes.
fn written(environment: &Environment<'static>, values: Value) -> Result<String, Error> {
    let template = environment.get_template(NAME)?;
    let mut text = Text::default();
    let done = template.render_captured_to(values, &mut text);
    if text.is_full {
        return Err(bounds::beyond(format!(
            "the template writes more than {MAX_TEXT_BYTES} bytes"
        )));
    }
    done?;
    String::from_utf8(text.bytes).map_err(|error| broken(&error.to_string()))
}

/// A text of bounded length.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full |= self.bytes.len() + bytes.len() > MAX_TEXT_BYTES;
        if self.is_full {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A template that the engine cannot carry out.
fn broken(panic: &str) -> Error {
    bounds::beyond(format!("the template engine failed: {panic}"))
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
