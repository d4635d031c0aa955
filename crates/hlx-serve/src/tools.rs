//! Functions that a model may call: what requests say of them, and what the model writes.

mod grammar;
mod object;
mod parameters;
mod reader;
mod style;

use std::sync::Arc;

use hlx_text::{ChatInput, Tokenizer};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::format::{Form, Grammar};
use crate::random::random_word;
pub(crate) use reader::{Part, Reader, whole};
pub(crate) use style::Style;

/// Functions of a request at most.
const MOST: usize = 128;

/// What a request says of functions.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// As the template finds them.
    all: Vec<Value>,
    must: Must,
    /// Whether an answer may call several functions.
    is_parallel: bool,
    /// Whether arguments must follow their schemas, whether a function must be called or not.
    is_strict: bool,
    /// As the request says it, for answers that repeat it.
    pub choice: Value,
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

/// A function of a request.
pub(crate) struct Function {
    /// As the template finds it.
    shown: Value,
    is_strict: bool,
}

/// Reads the functions of a request of chat completions; without any, or where none may be called, there are none.
pub(crate) fn take(fields: &mut Fields) -> Result<Option<Tools>, ApiError> {
    let choice = fields.take("tool_choice");
    let is_parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    let all = fields.each("tools", |mut tool| {
        check_type(&mut tool)?;
        let function = tool.object("function")?;
        let function = function_of(tool.needed("function", function)?, "parameters")?;
        tool.finish()?;
        Ok(function)
    })?;
    let must = choice_of(choice.as_ref(), |value| value["function"]["name"].as_str())?;
    Tools::new(all, must, is_parallel)
}

/// Fails for a tool that is no function.
pub(crate) fn check_type(tool: &mut Fields) -> Result<(), ApiError> {
    let kind = tool.text_needed("type")?;
    if kind == "function" {
        return Ok(());
    }
    let reason = format!("{kind:?} is not known here, expected function");
    Err(ApiError::unsupported(&tool.path("type"), reason))
}

/// A function as templates find it; its schema is under a name of the interface.
pub(crate) fn function_of(mut function: Fields, schema: &str) -> Result<Function, ApiError> {
    let mut found = json!({"name": function.text_needed("name")?});
    if let Some(text) = function.text("description")? {
        found["description"] = json!(text);
    }
    if let Some(parameters) = function.object(schema)? {
        found["parameters"] = parameters.shown();
    }
    let is_strict = function.flag("strict")?.unwrap_or(false);
    function.pass(&["cache_control"]);
    function.finish()?;
    Ok(Function {
        shown: json!({"type": "function", "function": found}),
        is_strict,
    })
}

/// Reads what must be called in OpenAI's words, or as an object with a name; `None` where nothing may be.
pub(crate) fn choice_of(
    choice: Option<&Value>,
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
        None => match name(value).filter(|_| value["type"] == "function") {
            Some(name) => Ok(Some(Must::Named(name.to_owned()))),
            None => {
                let reason = "is no word, and names no function";
                Err(ApiError::of_parameter("tool_choice", reason))
            }
        },
    }
}

impl Tools {
    /// Functions of which `must` be called; `None` where there are none, or none may be.
    pub fn new(
        all: Vec<Function>,
        must: Option<Must>,
        is_parallel: bool,
    ) -> Result<Option<Self>, ApiError> {
        if all.len() > MOST {
            let reason = format!("has {} functions, expected at most {MOST}", all.len());
            return Err(ApiError::of_parameter("tools", reason));
        }
        let Some(must) = must else {
            return Ok(None);
        };
        let is_strict = all.iter().any(|one| one.is_strict);
        let all: Vec<Value> = all.into_iter().map(|one| one.shown).collect();
        let choice = match &must {
            Must::Not => json!("auto"),
            Must::Any => json!("required"),
            Must::Named(name) => json!({"type": "function", "name": name}),
        };
        let tools = Self {
            all,
            must,
            is_parallel,
            is_strict,
            choice,
        };
        let is_known = match &tools.must {
            Must::Named(name) => tools.function(name).is_some(),
            Must::Any => !tools.all.is_empty(),
            Must::Not => true,
        };
        if !is_known {
            let reason = "is none of the functions";
            return Err(ApiError::of_parameter("tool_choice", reason));
        }
        Ok((!tools.all.is_empty()).then_some(tools))
    }

    /// Gives the functions to a template.
    pub fn give_to(&self, input: &mut ChatInput) -> Result<(), ApiError> {
        let values = serde_json::from_value(json!(self.all));
        input.tools = values.map_err(|error| ApiError::of_parameter("tools", error))?;
        Ok(())
    }

    /// Whether a function must be called.
    pub fn must_be_called(&self) -> bool {
        self.must != Must::Not
    }

    /// Whether an answer may call several functions.
    pub fn is_parallel(&self) -> bool {
        self.is_parallel
    }

    /// The functions as the request says them.
    pub fn functions(&self) -> impl Iterator<Item = &Value> {
        self.all.iter().map(|tool| &tool["function"])
    }

    fn function(&self, name: &str) -> Option<&Value> {
        self.functions().find(|function| function["name"] == name)
    }

    fn has(&self, name: &str) -> bool {
        self.function(name).is_some()
    }

    /// The schema of a function's arguments.
    fn schema_of(&self, name: &str) -> Value {
        self.function(name)
            .map_or(Value::Null, |function| function["parameters"].clone())
    }
}

/// A call that a model has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: String,
    /// JSON, as the model has written it.
    pub arguments: String,
}

/// How the calls of an answer are read: in a model's style, of a request's functions.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub style: Style,
    pub tools: Arc<Tools>,
}

impl Calls {
    /// The form of an answer: calls where one must be, and where arguments must follow their schemas. `form` is that of
    /// an answer that calls no function.
    pub fn form(&self, tokenizer: &Tokenizer, form: Option<Form>) -> Option<Form> {
        let answer = match form.as_ref().map(|form| &form.grammar) {
            Some(Grammar::Schema(schema)) => Some(schema),
            Some(Grammar::Lark(_)) | None => None,
        };
        let Some(grammar) = self.tools.grammar(self.style, tokenizer, answer) else {
            return form;
        };
        let path = match (form, self.tools.must_be_called()) {
            (_, true) => "tool_choice".to_owned(),
            (Some(form), false) => form.path,
            (None, false) => "tools".to_owned(),
        };
        Some(Form::of_grammar(path, grammar))
    }

    /// A new number of a call.
    pub fn new_id(&self, prefix: &str) -> Result<String, ApiError> {
        Ok(match self.style {
            // Their templates refuse others.
            Style::MistralList | Style::MistralNamed => {
                format!("{:09x}", random_word()? & 0xf_ffff_ffff)
            }
            _ => format!("{prefix}{:016x}{:016x}", random_word()?, random_word()?),
        })
    }

    /// What tells calls from text.
    pub fn reader(&self) -> Reader {
        Reader::new(self.style, Arc::clone(&self.tools))
    }
}

/// The forms of calls that are known here.
pub const N_CALL_FORMS: usize = Style::ALL.len();

/// Reads an answer with calls in one of the forms, a character at a time and as a whole.
///
/// # Errors
/// Where the two differ, and where something of the answer is lost that is no mark and no white space of a call.
pub fn check_calls(form: usize, text: &str) -> Result<(), String> {
    let function = |name: &str| Function {
        shown: json!({"type": "function", "function": {"name": name}}),
        is_strict: false,
    };
    let all = vec![function("f"), function("g")];
    let tools = Tools::new(all, Some(Must::Not), true).map_err(|error| error.message)?;
    let calls = Calls {
        style: Style::ALL[form % N_CALL_FORMS],
        tools: Arc::new(tools.ok_or("no functions")?),
    };
    let mut reader = calls.reader();
    let mut parts = Vec::new();
    let mut buffer = [0; 4];
    for one in text.chars() {
        parts.extend(reader.push(one.encode_utf8(&mut buffer)));
    }
    parts.extend(reader.finish());
    let (pieces, whole_text) = (whole(parts), whole(calls.reader().read(text)));
    if pieces != whole_text {
        return Err(format!(
            "{:?}: {text:?}: {pieces:?} in pieces, {whole_text:?}",
            calls.style
        ));
    }
    let has_marks = text.contains(['<', '[', '{']);
    match !has_marks && pieces.0 != text {
        true => Err(format!("{:?}: {text:?} became {:?}", calls.style, pieces.0)),
        false => Ok(()),
    }
}
