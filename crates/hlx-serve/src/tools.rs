//! Calls of functions: what a model writes, as the interfaces have them.

use hlx_text::ChatInput;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::format::Form;

/// Functions of a request at most.
const MOST: usize = 128;

/// How a model writes calls, which its chat template shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `<tool_call>{"name": .., "arguments": {..}}</tool_call>`, as Hermes and Qwen.
    Tagged,
}

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

impl Style {
    /// The style of a template, if it is known here.
    pub fn of_template(source: &str) -> Option<Self> {
        let is_tagged = source.contains(OPEN) && source.contains("arguments");
        // Some models write calls in other tags within these.
        let is_other = source.contains("<function=") || source.contains("<arg_key>");
        (is_tagged && !is_other).then_some(Self::Tagged)
    }
}

/// What a request says of functions.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// As the template finds them.
    all: Vec<Value>,
    must: Must,
}

/// Whether a function must be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Must {
    /// None must.
    Not,
    /// One of all must.
    Any,
    /// The one of this name must.
    Named(String),
}

/// Reads the functions of a request of chat completions; without any, or where none may be called, there are none.
pub(crate) fn take(fields: &mut Fields) -> Result<Option<Tools>, ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default();
    let choice = fields.take("tool_choice");
    fields.pass_if(&[("parallel_tool_calls", &[json!(true), json!(false)])])?;
    let mut all = Vec::new();
    for (at, tool) in tools.into_iter().enumerate() {
        let mut tool = Fields::of_value(&format!("tools[{at}]"), tool)?;
        check_type(&mut tool)?;
        let function = tool.object("function")?;
        all.push(function_of(
            tool.needed("function", function)?,
            "parameters",
        )?);
        tool.finish()?;
    }
    match choice_of(choice, |value| value["function"]["name"].as_str())? {
        Some(must) => Tools::new(all, must),
        None => Ok(None),
    }
}

/// Fails for a tool that is no function.
pub(crate) fn check_type(tool: &mut Fields) -> Result<(), ApiError> {
    let kind = tool.text("type")?;
    let kind = tool.needed("type", kind)?;
    if kind == "function" {
        return Ok(());
    }
    let reason = format!("{kind:?} is not known here, expected function");
    Err(ApiError::unsupported(&tool.path("type"), reason))
}

/// A function as templates find it; its schema is under a name of the interface.
pub(crate) fn function_of(mut function: Fields, schema: &str) -> Result<Value, ApiError> {
    let name = function.text("name")?;
    let mut found = json!({"name": function.needed("name", name)?});
    if let Some(text) = function.text("description")? {
        found["description"] = json!(text);
    }
    if let Some(parameters) = function.object(schema)? {
        found["parameters"] = parameters.shown();
    }
    function.pass(&["strict", "cache_control"]);
    function.finish()?;
    Ok(json!({"type": "function", "function": found}))
}

/// Reads what must be called in OpenAI's words, or as an object with a name; `None` where nothing may be.
pub(crate) fn choice_of(
    choice: Option<Value>,
    name: impl Fn(&Value) -> Option<&str>,
) -> Result<Option<Must>, ApiError> {
    let Some(value) = choice else {
        return Ok(Some(Must::Not));
    };
    match value.as_str() {
        Some("auto") => Ok(Some(Must::Not)),
        Some("none") => Ok(None),
        Some("required") => Ok(Some(Must::Any)),
        Some(other) => {
            let reason = format!("{other:?} is not known here");
            Err(ApiError::unsupported("tool_choice", reason))
        }
        None => match name(&value).filter(|_| value["type"] == "function") {
            Some(name) => Ok(Some(Must::Named(name.to_owned()))),
            None => {
                let reason = "is no word, and names no function";
                Err(ApiError::of_parameter("tool_choice", reason))
            }
        },
    }
}

impl Tools {
    /// Functions as templates find them; without any there are none.
    pub fn new(all: Vec<Value>, must: Must) -> Result<Option<Self>, ApiError> {
        if all.len() > MOST {
            let reason = format!("has {} functions, expected at most {MOST}", all.len());
            return Err(ApiError::of_parameter("tools", reason));
        }
        let is_known = match &must {
            Must::Named(name) => all
                .iter()
                .any(|tool| tool["function"]["name"] == name.as_str()),
            Must::Any => !all.is_empty(),
            Must::Not => true,
        };
        if !is_known {
            let reason = "is none of the functions";
            return Err(ApiError::of_parameter("tool_choice", reason));
        }
        Ok((!all.is_empty()).then_some(Self { all, must }))
    }

    /// Gives the functions to a template; returns the form of the answer, where one must be called.
    pub fn give_to(&self, input: &mut ChatInput) -> Result<Option<Form>, ApiError> {
        let values = serde_json::from_value(json!(self.all));
        input.tools = values.map_err(|error| ApiError::of_parameter("tools", error))?;
        let grammar = self.grammar();
        Ok(grammar.map(|grammar| Form::of_grammar("tool_choice", grammar)))
    }

    /// The grammar of an answer that calls a function, where one must be called.
    fn grammar(&self) -> Option<String> {
        let calls = self
            .all
            .iter()
            .map(|tool| &tool["function"])
            .filter(|function| match &self.must {
                Must::Not => false,
                Must::Any => true,
                Must::Named(name) => function["name"] == name.as_str(),
            });
        let calls: Vec<Value> = calls
            .map(|function| {
                let parameters = match function["parameters"].is_null() {
                    true => json!({"type": "object"}),
                    false => function["parameters"].clone(),
                };
                json!({
                    "type": "object",
                    "properties": {"name": {"const": function["name"]}, "arguments": parameters},
                    "required": ["name", "arguments"],
                    "additionalProperties": false,
                })
            })
            .collect();
        // As templates write calls: a blank behind a comma and a colon, and no other white space.
        let spaces =
            json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "});
        let schema = json!({"anyOf": calls, "x-guidance": spaces});
        (!calls.is_empty())
            .then(|| format!("start: \"{OPEN}\\n\" call \"\\n{CLOSE}\"\ncall: %json {schema}\n"))
    }
}

/// A call that a model has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: String,
    /// JSON, as the interfaces have it.
    pub arguments: String,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Call(Call),
}

/// Tells calls from text while an answer grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    /// Text that is not clear yet.
    held: String,
    is_in_call: bool,
    has_called: bool,
}

impl Reader {
    /// Adds text, and returns the parts that are clear now.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held += text;
        let mut parts = Vec::new();
        loop {
            let mark = if self.is_in_call { CLOSE } else { OPEN };
            let Some(at) = self.held.find(mark) else {
                break;
            };
            let before = self.held[..at].to_owned();
            self.held.drain(..at + mark.len());
            match self.is_in_call {
                true => parts.push(self.called(&before)),
                false => self.add_text(before.trim_end().to_owned(), &mut parts),
            }
            self.is_in_call = !self.is_in_call;
        }
        if !self.is_in_call {
            // What may begin a call is held back, and white space before it.
            let begun = (1..OPEN.len())
                .rev()
                .find(|&n| self.held.ends_with(&OPEN[..n]));
            let clear = self.held.len() - begun.unwrap_or(0);
            let clear = self.held[..clear].trim_end().len();
            let rest = self.held.split_off(clear);
            let text = std::mem::replace(&mut self.held, rest);
            self.add_text(text, &mut parts);
        }
        parts
    }

    /// Ends the answer: what is held is text.
    pub fn finish(mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        let rest = std::mem::take(&mut self.held);
        let rest = match self.is_in_call {
            true => format!("{OPEN}{rest}"),
            false if self.has_called => rest.trim_end().to_owned(),
            false => rest,
        };
        self.add_text(rest, &mut parts);
        parts
    }

    fn add_text(&self, text: String, parts: &mut Vec<Part>) {
        // White space between calls is no text.
        let is_between = self.has_called && text.trim().is_empty();
        if !text.is_empty() && !is_between {
            parts.push(Part::Text(text));
        }
    }

    /// What stands between the tags: a call, or text that is none.
    fn called(&mut self, inner: &str) -> Part {
        let call = serde_json::from_str::<Value>(inner.trim()).ok();
        let call = call.and_then(|call| {
            let name = call["name"].as_str()?.to_owned();
            let arguments = match &call["arguments"] {
                Value::String(text) => text.clone(),
                Value::Null => "{}".to_owned(),
                other => other.to_string(),
            };
            Some(Call { name, arguments })
        });
        match call {
            Some(call) => {
                self.has_called = true;
                Part::Call(call)
            }
            None => Part::Text(format!("{OPEN}{inner}{CLOSE}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a text that comes in pieces of `n` characters, texts that follow each other joined.
    fn read(text: &str, n: usize) -> Vec<Part> {
        let mut reader = Reader::default();
        let chars: Vec<char> = text.chars().collect();
        let pieces = chars
            .chunks(n)
            .map(|piece| piece.iter().collect::<String>());
        let mut parts: Vec<Part> = pieces.flat_map(|piece| reader.push(&piece)).collect();
        parts.extend(reader.finish());
        let mut joined: Vec<Part> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(text)) => *before += &text,
                (_, part) => joined.push(part),
            }
        }
        joined
    }

    #[test]
    fn calls_are_told_from_text_wherever_pieces_end() {
        let call = |name: &str, arguments: &str| {
            let (name, arguments) = (name.to_owned(), arguments.to_owned());
            Part::Call(Call { name, arguments })
        };
        let text = |text: &str| Part::Text(text.to_owned());
        let both = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
                    <tool_call>{\"name\": \"g\"}</tool_call>";
        let cases = [
            ("a < b\n", vec![text("a < b\n")]),
            ("", vec![]),
            (both, vec![call("f", "{\"a\":1}"), call("g", "{}")]),
            (
                "so: <tool_call>{\"name\": \"g\"}</tool_call>",
                vec![text("so:"), call("g", "{}")],
            ),
            (
                "<tool_call>no</tool_call>",
                vec![text("<tool_call>no</tool_call>")],
            ),
            ("a <tool_call>{\"na", vec![text("a<tool_call>{\"na")]),
            ("a <tool_", vec![text("a <tool_")]),
        ];
        for (whole, expected) in cases {
            for n in [1, 2, 3, 5, 1000] {
                assert_eq!(read(whole, n), expected, "{whole:?} by {n}");
            }
        }
    }

    #[test]
    fn a_template_says_how_calls_are_written() {
        let tagged = "<tool_call>{\"name\": <name>, \"arguments\": <args>}</tool_call>";
        assert_eq!(Style::of_template(tagged), Some(Style::Tagged));
        assert_eq!(Style::of_template("{{ messages }}"), None);
        assert_eq!(
            Style::of_template("<tool_call><function=name> arguments"),
            None
        );
    }
}
