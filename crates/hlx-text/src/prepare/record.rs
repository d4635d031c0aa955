//! Records of JSON: which keys make one, in which of the layouts that people use.

mod chats;
mod fields;

use crate::{ChatInput, Message};
use chats::{besides, conversation, messages, turns};
use fields::{BESIDE, Fields};

/// A record, and its keys that are not read.
#[derive(Debug)]
pub(super) struct Read {
    pub record: Record,
    pub other_keys: Vec<String>,
}

/// The parts of a record, and which of them are predicted.
#[derive(Debug)]
pub(super) enum Record {
    Text(String),
    /// An input and its output, with a separator between them.
    Pair {
        input: String,
        output: String,
    },
    /// A prompt and what continues from it.
    Completion {
        prompt: String,
        completion: String,
    },
    Chat(Chat),
}

/// A conversation.
#[derive(Debug)]
pub(super) struct Chat {
    /// What the template gets.
    pub input: ChatInput,
    /// Messages at the front of which nothing is trained on.
    pub n_given: usize,
}

impl Chat {
    fn of(input: ChatInput) -> Self {
        Self { input, n_given: 0 }
    }
}

/// How the keys of a record are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Messages,
    Conversation,
    Completion,
    /// An instruction, which an input may follow, and the answer: a turn of a chat where there is a template.
    Instruction,
    /// An input and its output.
    Pair,
}

/// Keys that together make a record.
struct Layout {
    kind: Kind,
    /// Keys that it must have: of a pair, the input and the output.
    keys: &'static [&'static str],
    /// Keys that it may have.
    also: &'static [&'static str],
}

const OF_CHATS: &[&str] = &["tools", "documents", "chat_template_kwargs"];
const OF_CONVERSATIONS: &[&str] = &["system", "tools", "documents", "chat_template_kwargs"];
const OF_TURNS: &[&str] = &["system", "history"];

#[rustfmt::skip]
const LAYOUTS: [Layout; 9] = [
    Layout { kind: Kind::Text, keys: &["text"], also: &[] },
    Layout { kind: Kind::Messages, keys: &["messages"], also: OF_CHATS },
    Layout { kind: Kind::Conversation, keys: &["conversations"], also: OF_CONVERSATIONS },
    Layout { kind: Kind::Completion, keys: &["prompt", "completion"], also: OF_CHATS },
    Layout { kind: Kind::Instruction, keys: &["instruction", "output"], also: &["input", "system", "history"] },
    Layout { kind: Kind::Instruction, keys: &["instruction", "response"], also: &["context", "system", "history"] },
    Layout { kind: Kind::Pair, keys: &["input", "output"], also: OF_TURNS },
    Layout { kind: Kind::Pair, keys: &["question", "answer"], also: OF_TURNS },
    Layout { kind: Kind::Pair, keys: &["query", "response"], also: OF_TURNS },
];

/// Whether a record is refused whose layout does not read a key: it would change what a model learns.
fn is_meant(key: &str) -> bool {
    key == "instruction" || BESIDE.contains(&key)
}

impl Layout {
    fn has(&self, key: &str) -> bool {
        self.keys.contains(&key) || self.also.contains(&key)
    }

    /// Whether another layout reads all that makes this one, and more.
    fn is_part_of(&self, other: &Self) -> bool {
        let within = |one: &Self, all: &Self| one.keys.iter().all(|key| all.has(key));
        within(self, other) && !within(other, self)
    }

    /// The keys, as `input` and `output`.
    fn named(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(|key| format!("`{key}`")).collect();
        keys.join(" and ")
    }
}

impl Read {
    /// Reads an object of JSON; `has_template` says whether turns can be laid out as a chat.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn parse(json: &str, has_template: bool) -> Result<Self, String> {
        let fields = Fields::parse(json)?;
        let layout = layout_of(&fields)?;
        let others = fields.names().filter(|name| !layout.has(name));
        let other_keys: Vec<String> = others.map(str::to_owned).collect();
        if let Some(key) = other_keys.iter().find(|key| is_meant(key)) {
            return Err(format!(
                "`{key}` is not read with {}; remove it, or write the record in a layout that has it",
                layout.named()
            ));
        }
        let record = layout.read(&fields, has_template)?;
        Ok(Self { record, other_keys })
    }
}

/// The one layout of a record.
fn layout_of(fields: &Fields) -> Result<&'static Layout, String> {
    let has = |key: &&str| fields.has(key);
    if let Some(key) = ["chosen", "rejected"].iter().find(|key| has(key)) {
        return Err(format!(
            "`{key}` is of records of preference, which HLX does not train on"
        ));
    }
    let found: Vec<&Layout> = LAYOUTS
        .iter()
        .filter(|layout| layout.keys.iter().all(has))
        .collect();
    let is_whole = |one: &&&Layout| !found.iter().any(|other| one.is_part_of(other));
    let whole: Vec<&Layout> = found.iter().filter(is_whole).copied().collect();
    match whole[..] {
        [layout] if layout.kind == Kind::Completion && fields.is_flag("label") => {
            Err("`label` is of records of preference, which HLX does not train on".to_owned())
        }
        [layout] => Ok(layout),
        [] => Err(no_layout(fields)),
        [one, other, ..] => Err(format!(
            "has both {} and {}: which is it? leave one of them out",
            one.named(),
            other.named()
        )),
    }
}

/// Why an object is not a record.
fn no_layout(fields: &Fields) -> String {
    if let Some(list) = fields.list_of_objects() {
        return format!(
            "holds its records in the list `{list}`: write that list alone, or one record a line"
        );
    }
    let layouts: Vec<String> = LAYOUTS.iter().map(Layout::named).collect();
    let names: Vec<String> = fields.names().map(|name| format!("`{name}`")).collect();
    let found = match names.len() {
        0 => "it has no key".to_owned(),
        1..=8 => format!("its keys are {}", names.join(", ")),
        n => format!("its {n} keys are {}, ...", names[..8].join(", ")),
    };
    format!("has neither {}; {found}", layouts.join(", nor "))
}

impl Layout {
    fn read(&self, fields: &Fields, has_template: bool) -> Result<Record, String> {
        let text = |at: usize| fields.text(self.keys[at]);
        Ok(match self.kind {
            Kind::Text => Record::Text(text(0)?),
            Kind::Messages => Record::Chat(Chat::of(ChatInput {
                messages: messages(fields, "messages")?,
                ..besides(fields)?
            })),
            Kind::Conversation => Record::Chat(Chat::of(conversation(fields)?)),
            Kind::Completion if fields.is_list("prompt") || fields.is_list("completion") => {
                let mut all = messages(fields, "prompt")?;
                let n_given = all.len();
                all.append(&mut messages(fields, "completion")?);
                let input = ChatInput {
                    messages: all,
                    ..besides(fields)?
                };
                Record::Chat(Chat { input, n_given })
            }
            Kind::Completion => {
                if let Some(key) = OF_CHATS.iter().find(|key| fields.has(key)) {
                    return Err(format!("`{key}` is not read with a prompt that is a text"));
                }
                Record::Completion {
                    prompt: text(0)?,
                    completion: text(1)?,
                }
            }
            Kind::Instruction | Kind::Pair => self.turn(fields, has_template)?,
        })
    }

    /// A turn: a pair, or a chat where an instruction or earlier turns can be laid out.
    fn turn(&self, fields: &Fields, has_template: bool) -> Result<Record, String> {
        let (mut input, output) = (fields.text(self.keys[0])?, fields.text(self.keys[1])?);
        let more = self.also[0];
        if self.kind == Kind::Instruction
            && let Some(more) = fields.text_if_any(more)?
        {
            input = match input.is_empty() {
                true => more,
                false => format!("{input}\n{more}"),
            };
        }
        let mut before = turns(fields)?;
        let is_chat = match self.kind {
            Kind::Instruction => has_template,
            _ => !before.is_empty(),
        };
        if !before.is_empty() && !has_template {
            let key = OF_TURNS.iter().find(|key| fields.has(key));
            return Err(format!(
                "`{}` needs a chat template: the tokenizer's folder has none, and none is given",
                key.unwrap_or(&"system")
            ));
        }
        if !is_chat {
            return Ok(Record::Pair { input, output });
        }
        before.extend([
            Message::new("user", &input),
            Message::new("assistant", &output),
        ]);
        Ok(Record::Chat(Chat::of(ChatInput::of(&before))))
    }
}
