//! Tells calls from text while an answer grows.

use std::sync::Arc;

use super::object::{Object, Scan, Step};
use super::parameters::{Parameters, is_begin};
use super::style::{CALL, END_CALL, FUNCTION, MISTRAL_ARGUMENTS, MISTRAL_ID, SEPARATOR, Style};
use super::{Call, Tools};

/// Characters between what begins a call and its arguments at most.
const LONGEST_HEADER: usize = 1024;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// A call of the function of this name begins.
    Call(String),
    /// More of the call's arguments: JSON, as the model has written it.
    Arguments(String),
    /// The call has all of its arguments.
    End,
}

/// Tells calls from text while an answer grows.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    style: Style,
    tools: Arc<Tools>,
    /// Text that is not clear yet.
    held: String,
    /// White space before what may be a call, and what was taken of that: text, if it is none.
    taken: String,
    state: State,
    is_in_call: bool,
    /// Whether no text has come behind the last call.
    is_behind_call: bool,
    n_calls: usize,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing but white space has come: calls of some models have no mark.
    Start,
    Text,
    /// Behind a mark, or between calls of a list.
    Open,
    Object(Object),
    Parameters(Parameters),
    /// The arguments behind a name.
    Value(Scan),
    /// Behind a call.
    Behind,
    /// No more calls are wanted.
    Done,
}

impl Reader {
    pub(super) fn new(style: Style, tools: Arc<Tools>) -> Self {
        Self {
            style,
            tools,
            held: String::new(),
            taken: String::new(),
            state: State::Start,
            is_in_call: false,
            is_behind_call: false,
            n_calls: 0,
        }
    }

    /// How many calls have begun.
    pub fn n_calls(&self) -> usize {
        self.n_calls
    }

    /// The parts of a whole text.
    pub fn read(mut self, text: &str) -> Vec<Part> {
        let mut parts = self.push(text);
        parts.extend(self.finish());
        parts
    }

    /// Adds text, and returns the parts that are clear now.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held += text;
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// Ends the answer: what is held is text, or the end of a call.
    pub fn finish(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => {}
            state if self.is_in_call => {
                if let State::Parameters(call) = state {
                    parts.push(Part::Arguments(call.rest().to_owned()));
                }
                parts.push(Part::End);
            }
            _ => {
                let rest = std::mem::take(&mut self.taken) + &self.held;
                let rest = match self.n_calls {
                    0 => &rest[..],
                    _ => rest.trim_end(),
                };
                add_text(rest, &mut parts);
            }
        }
        self.held.clear();
        parts
    }

    /// Takes what is clear; returns whether more may be.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match &mut self.state {
            State::Start => self.start(),
            State::Text => self.text(parts),
            State::Open => self.open(parts),
            State::Object(object) => {
                let before = self.held.clone();
                let step = object.step(&mut self.held);
                self.taken += &before[..before.len() - self.held.len()];
                self.apply(step, parts)
            }
            State::Parameters(call) => {
                let before = self.held.clone();
                let step = call.step(&mut self.held, |name| self.tools.schema_of(name));
                self.taken += &before[..before.len() - self.held.len()];
                self.apply(step, parts)
            }
            State::Value(scan) => {
                let (n, ends) = scan.advance(&self.held);
                if n > 0 {
                    parts.push(Part::Arguments(self.held.drain(..n).collect()));
                }
                ends && self.apply(Step::End, parts)
            }
            State::Behind => self.behind(),
            State::Done => {
                self.held.clear();
                false
            }
        }
    }

    fn apply(&mut self, step: Step, parts: &mut Vec<Part>) -> bool {
        match step {
            Step::Wait => return false,
            Step::Named(name) => {
                if self.style == Style::Bare && !self.tools.has(&name) {
                    return self.fault(parts);
                }
                self.taken.clear();
                self.is_in_call = true;
                self.n_calls += 1;
                parts.push(Part::Call(name));
            }
            Step::Arguments(text) => {
                self.taken.clear();
                parts.push(Part::Arguments(text));
            }
            Step::End => {
                self.taken.clear();
                self.is_in_call = false;
                self.is_behind_call = true;
                parts.push(Part::End);
                self.state = match self.tools.is_parallel() {
                    true => State::Behind,
                    false => State::Done,
                };
            }
            Step::Fault => return self.fault(parts),
        }
        true
    }

    /// What was taken for a call is text.
    fn fault(&mut self, parts: &mut Vec<Part>) -> bool {
        self.is_behind_call = false;
        add_text(&std::mem::take(&mut self.taken), parts);
        self.state = State::Text;
        true
    }

    /// An answer may begin with a call that has no mark.
    fn start(&mut self) -> bool {
        let begun = self.held.trim_start();
        if begun.is_empty() {
            return false;
        }
        let is_object = self.style == Style::Bare && begun.starts_with('{');
        self.state = match is_object {
            true => State::Object(Object::new(true)),
            false => State::Text,
        };
        true
    }

    fn text(&mut self, parts: &mut Vec<Part>) -> bool {
        let open = self.style.open();
        if let Some(at) = self.held.find(open) {
            let text = self.held[..at].trim_end();
            self.taken = self.held[text.len()..at + open.len()].to_owned();
            // White space between calls is no text.
            if self.is_behind_call && text.is_empty() {
                self.taken = open.to_owned();
            }
            self.is_behind_call &= text.is_empty();
            add_text(text, parts);
            self.held.drain(..at + open.len());
            self.state = State::Open;
            return true;
        }
        // What may begin a call is held back, and white space before it.
        let begun = (1..open.len())
            .filter(|&n| open.is_char_boundary(n))
            .rev()
            .find(|&n| self.held.ends_with(&open[..n]));
        let clear = self.held.len() - begun.unwrap_or(0);
        let clear = self.held[..clear].trim_end().len();
        self.is_behind_call &= clear == 0;
        add_text(&self.held[..clear], parts);
        self.held.drain(..clear);
        false
    }

    /// Takes white space and these marks from the beginning of what is held, for text if no call comes.
    fn skip(&mut self, marks: &[&str]) {
        loop {
            let blank = self.held.len() - self.held.trim_start().len();
            let rest = &self.held[blank..];
            let mark = marks.iter().find(|mark| rest.starts_with(**mark));
            let n = blank + mark.map_or(0, |mark| mark.len());
            self.taken.extend(self.held.drain(..n));
            if mark.is_none() {
                return;
            }
        }
    }

    /// What comes behind a mark.
    fn open(&mut self, parts: &mut Vec<Part>) -> bool {
        self.skip(&["["]);
        let Some(next) = self.held.chars().next() else {
            return false;
        };
        match self.style {
            Style::Parameters => self.state = State::Parameters(Parameters::default()),
            _ if next == '{' => self.state = State::Object(Object::new(false)),
            Style::Tagged if FUNCTION.starts_with(&self.held) => return false,
            Style::Tagged if self.held.starts_with(FUNCTION) => {
                self.state = State::Parameters(Parameters::default());
            }
            Style::MistralList | Style::MistralNamed => return self.header(parts),
            Style::DeepSeek | Style::DeepSeekFenced => {
                if is_begin(&self.held, &[CALL]) && self.held != CALL {
                    return false;
                }
                return match self.held.starts_with(CALL) {
                    true => self.header(parts),
                    false => self.fault(parts),
                };
            }
            Style::Tagged | Style::Bare | Style::BarredList => return self.fault(parts),
        }
        true
    }

    /// The name before the arguments.
    fn header(&mut self, parts: &mut Vec<Part>) -> bool {
        let Some(at) = self.held.find('{') else {
            return self.held.len() > LONGEST_HEADER && self.fault(parts);
        };
        let header = self.held[..at]
            .strip_prefix(CALL)
            .unwrap_or(&self.held[..at]);
        let name = match header.split_once(SEPARATOR) {
            // `function`, and behind it the name before a fence; or the name alone.
            Some((kind, rest)) => match rest.split("```").next().map(str::trim) {
                Some(name) if !name.is_empty() => name,
                _ => kind,
            },
            None => {
                let name = header.split(MISTRAL_ARGUMENTS).next().unwrap_or_default();
                name.split(MISTRAL_ID).next().unwrap_or_default()
            }
        };
        let name = name.trim().to_owned();
        if name.is_empty() || name.len() > LONGEST_HEADER || name.contains(['<', '\n']) {
            return self.fault(parts);
        }
        self.taken.extend(self.held.drain(..at));
        self.state = State::Value(Scan::default());
        self.apply(Step::Named(name), parts)
    }

    /// What comes behind a call: the next one of a list, or what ends it.
    fn behind(&mut self) -> bool {
        let style = self.style;
        let between: &[&str] = match style {
            Style::Tagged | Style::Parameters => &[],
            Style::Bare => &[";", ","],
            Style::MistralList | Style::MistralNamed | Style::BarredList => &[",", "]"],
            Style::DeepSeek | Style::DeepSeekFenced => &["```", END_CALL],
        };
        self.skip(&[between, style.closes()].concat());
        self.taken.clear();
        if self.held.is_empty() {
            return false;
        }
        let marks = [between, style.closes(), &[CALL]].concat();
        if is_begin(&self.held, &marks) && self.held != CALL {
            return false;
        }
        let is_list = !matches!(style, Style::Tagged | Style::Parameters);
        let continues = self.held.starts_with(CALL) || (is_list && self.held.starts_with('{'));
        self.state = if continues { State::Open } else { State::Text };
        true
    }
}

fn add_text(text: &str, parts: &mut Vec<Part>) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// The text of parts that are whole, and the calls behind or in it.
pub(crate) fn whole(parts: Vec<Part>) -> (String, Vec<Call>) {
    let (mut text, mut calls) = (String::new(), Vec::<Call>::new());
    for part in parts {
        match (part, calls.last_mut()) {
            (Part::Text(piece), _) => text += &piece,
            (Part::Call(name), _) => calls.push(Call {
                name,
                arguments: String::new(),
            }),
            (Part::Arguments(piece), Some(call)) => call.arguments += &piece,
            (Part::Arguments(_), None) | (Part::End, _) => {}
        }
    }
    (text, calls)
}

#[cfg(test)]
mod tests;
