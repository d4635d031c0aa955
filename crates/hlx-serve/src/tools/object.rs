//! Calls as JSON while they grow: objects with a name and arguments, whose arguments are passed on as they come.

use serde_json::Value;

/// What the next characters of a call are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More characters are needed.
    Wait,
    /// The name is known, and the arguments begin.
    Named(String),
    /// More of the arguments.
    Arguments(String),
    /// The call has ended.
    End,
    /// It is no call.
    Fault,
}

/// A value that is passed on as it comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl Scan {
    /// How many bytes of a text belong to the value, and whether it ends with them. A scalar ends before a comma, a
    /// bracket or white space; what can't be JSON ends it, too.
    pub fn advance(&mut self, text: &str) -> (usize, bool) {
        for (at, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                if !self.in_string && self.depth == 0 {
                    return (at + 1, true);
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.depth == 0 => return (at, true),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                b'<' => return (at, true),
                _ if self.depth == 0 && self.has_begun && byte.is_ascii_whitespace() => {
                    return (at, true);
                }
                _ => {}
            }
            self.has_begun |= !byte.is_ascii_whitespace();
        }
        (text.len(), false)
    }
}

/// A string at the beginning of a text, and its bytes; `None` where it is not whole, `Some(None)` where there is none.
fn string(text: &str) -> Option<Option<(String, usize)>> {
    if !text.starts_with('"') {
        return Some(None);
    }
    let (n, ends) = Scan::default().advance(text);
    ends.then(|| {
        let read = serde_json::from_str::<String>(&text[..n]).ok();
        read.map(|read| (read, n))
    })
}

/// An object that may be a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    state: State,
    name: Option<String>,
    /// Arguments that came before the name, or are a text of JSON.
    arguments: Option<String>,
    was_named: bool,
    /// Whether other keys than a call's make it none.
    is_strict: bool,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Begin,
    Key,
    Colon(String),
    /// The value of a key, whole.
    Value(String),
    /// The arguments, as they come.
    Arguments(Scan),
    Behind,
    Ended,
}

impl Object {
    pub fn new(is_strict: bool) -> Self {
        Self {
            is_strict,
            ..Self::default()
        }
    }

    /// Takes characters from the beginning of a text.
    pub fn step(&mut self, held: &mut String) -> Step {
        loop {
            if !matches!(self.state, State::Arguments(_)) {
                let blank = held.len() - held.trim_start().len();
                held.drain(..blank);
            }
            let Some(next) = held.chars().next() else {
                return match self.state {
                    State::Ended => self.end(),
                    _ => Step::Wait,
                };
            };
            match &mut self.state {
                State::Begin if next == '{' => {
                    held.drain(..1);
                    self.state = State::Key;
                }
                State::Behind if next == ',' => {
                    held.drain(..1);
                    self.state = State::Key;
                }
                State::Key | State::Behind if next == '}' => {
                    held.drain(..1);
                    self.state = State::Ended;
                    return self.end();
                }
                State::Key => match string(held) {
                    None => return Step::Wait,
                    Some(Some((key, n))) if self.knows(&key) => {
                        held.drain(..n);
                        self.state = State::Colon(key);
                    }
                    Some(_) => return Step::Fault,
                },
                State::Colon(key) if next == ':' => {
                    self.state = State::Value(std::mem::take(key));
                    held.drain(..1);
                }
                State::Value(key) => {
                    let is_arguments = is_arguments(key);
                    if is_arguments && matches!(next, '{' | '[') && self.name.is_some() {
                        self.state = State::Arguments(Scan::default());
                        return self.named();
                    }
                    let (n, ends) = Scan::default().advance(held);
                    if !ends {
                        return Step::Wait;
                    }
                    let key = std::mem::take(key);
                    let text: String = held.drain(..n).collect();
                    self.state = State::Behind;
                    if !self.take(&key, &text) {
                        return Step::Fault;
                    }
                }
                State::Arguments(scan) => {
                    let (n, ends) = scan.advance(held);
                    if ends {
                        self.state = State::Behind;
                    }
                    if n > 0 {
                        return Step::Arguments(held.drain(..n).collect());
                    }
                }
                State::Ended => return self.end(),
                State::Begin | State::Colon(_) | State::Behind => return self.fault(),
            }
        }
    }

    /// Takes a whole value; returns whether it can be a call's.
    fn take(&mut self, key: &str, text: &str) -> bool {
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            return false;
        };
        if key == "name" && self.name.is_none() {
            self.name = value.as_str().map(str::to_owned);
            return self.name.is_some();
        }
        if is_arguments(key) {
            self.arguments = Some(match value {
                Value::String(text) => text,
                Value::Null => "{}".to_owned(),
                _ => text.to_owned(),
            });
        }
        true
    }

    fn knows(&self, key: &str) -> bool {
        !self.is_strict || is_arguments(key) || ["name", "type", "id"].contains(&key)
    }

    fn named(&mut self) -> Step {
        self.was_named = true;
        Step::Named(self.name.clone().unwrap_or_default())
    }

    /// What is left to be said of an object that has ended, or is none from here on.
    fn end(&mut self) -> Step {
        match (&self.name, self.was_named) {
            (None, _) => Step::Fault,
            (Some(_), false) => {
                self.arguments.get_or_insert_with(|| "{}".to_owned());
                self.named()
            }
            (Some(_), true) => match self.arguments.take() {
                Some(arguments) => Step::Arguments(arguments),
                None => Step::End,
            },
        }
    }

    /// A fault behind the name ends the call: what was said of it is with the client.
    fn fault(&mut self) -> Step {
        match self.was_named {
            true => {
                self.state = State::Ended;
                self.end()
            }
            false => Step::Fault,
        }
    }
}

fn is_arguments(key: &str) -> bool {
    ["arguments", "parameters"].contains(&key)
}
