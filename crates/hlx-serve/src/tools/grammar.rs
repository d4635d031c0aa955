//! The grammar of an answer that calls functions, for llguidance.

use hlx_text::Tokenizer;
use serde_json::{Value, json};

use super::style::{
    BARRED, CALL, END_CALL, END_FUNCTION, END_PARAMETER, END_SECTION, END_TAG, FUNCTION, MISTRAL,
    MISTRAL_ARGUMENTS, PARAMETER, SECTION, SEPARATOR, Style, TAG,
};
use super::{Must, Tools};

/// Writes grammars in the marks of a style.
struct Writer<'t> {
    style: Style,
    tokenizer: &'t Tokenizer,
    /// The rules behind the first.
    rules: String,
    n_rules: usize,
}

impl Tools {
    /// The grammar of an answer, where a function must be called, or where arguments must follow their schemas.
    /// `answer` is the schema of an answer that calls none.
    pub fn grammar(
        &self,
        style: Style,
        tokenizer: &Tokenizer,
        answer: Option<&Value>,
    ) -> Option<String> {
        let is_free = self.must == Must::Not;
        if is_free && !self.is_strict && answer.is_none() {
            return None;
        }
        let mut writer = Writer {
            style,
            tokenizer,
            rules: String::new(),
            n_rules: 0,
        };
        let named = |function: &&Value| match &self.must {
            Must::Named(name) => function["name"] == name.as_str(),
            Must::Not | Must::Any => true,
        };
        let functions: Vec<&Value> = self.functions().filter(named).collect();
        let is_one = !self.is_parallel || matches!(self.must, Must::Named(_));
        let calls = writer.calls(&functions, is_one);
        let calls = writer.rule(&calls);
        let start = match (is_free, answer) {
            (false, _) => calls,
            (true, Some(schema)) => {
                let answer = writer.rule(&format!("%json {schema}"));
                format!("{answer} | {calls}")
            }
            (true, None) => format!("text | text {calls} | {calls}"),
        };
        let text = match style {
            // An answer that begins as a call is one.
            Style::Bare => r"/[^{ \n](.|\n)*/",
            _ => "/(.|\\n)*/",
        };
        let open = literal(style.open());
        let rules = writer.rules;
        let without = format!("/(.|\\n)*/ {open} /(.|\\n)*/");
        Some(format!(
            "start: {start}\n{rules}text: TEXT\nTEXT: {text} & ~({without})\n"
        ))
    }
}

/// A text in a grammar.
fn literal(text: &str) -> String {
    json!(text).to_string()
}

/// A text of a tag: all up to its end.
fn without(text: &str) -> String {
    let text = literal(text);
    format!("/(.|\\n)*/ & ~(/(.|\\n)*/ {text} /(.|\\n)*/)")
}

impl Writer<'_> {
    /// Adds a rule, and returns its name.
    fn rule(&mut self, body: &str) -> String {
        let name = format!("rule_{}", self.n_rules);
        self.n_rules += 1;
        self.rules += &format!("{name}: {body}\n");
        name
    }

    /// A mark: its token where it is a special one.
    fn mark(&self, mark: &str) -> String {
        let id = self.tokenizer.token_to_id(mark);
        let id = id.filter(|&id| self.tokenizer.token_bytes(id).is_none());
        id.map_or_else(|| literal(mark), |id| format!("<[{id}]>"))
    }

    /// Calls of these functions, one or several.
    fn calls(&mut self, functions: &[&Value], is_one: bool) -> String {
        let all: Vec<String> = functions.iter().map(|one| self.call(one)).collect();
        let call = self.rule(&all.join(" | "));
        let several = |separator: &str| match is_one {
            true => call.clone(),
            false => format!("{call} ({separator} {call})*"),
        };
        match self.style {
            Style::Tagged | Style::Parameters => several("\"\\n\""),
            // The template lets no more than one be said.
            Style::Bare => call,
            Style::MistralNamed => several(""),
            Style::MistralList => {
                format!("{} \" [\" {} \"]\"", self.mark(MISTRAL), several("\", \""))
            }
            Style::BarredList => {
                format!("{} \"[\" {} \"]\"", self.mark(BARRED), several("\", \""))
            }
            Style::DeepSeekFenced | Style::DeepSeek => {
                let separator = match self.style {
                    Style::DeepSeekFenced => "\"\\n\"",
                    _ => "",
                };
                let (open, close) = (self.mark(SECTION), self.mark(END_SECTION));
                format!("{open} {} {close}", several(separator))
            }
        }
    }

    /// A call of one function.
    fn call(&mut self, function: &Value) -> String {
        let name = function["name"].as_str().unwrap_or_default();
        let schema = match function["parameters"].is_null() {
            true => json!({"type": "object"}),
            false => function["parameters"].clone(),
        };
        match self.style {
            Style::Tagged => {
                let object = self.object(name, "arguments", &schema);
                let (open, close) = (self.mark(TAG), self.mark(END_TAG));
                format!("{open} \"\\n\" {object} \"\\n\" {close}")
            }
            Style::Bare => self.object(name, "parameters", &schema),
            Style::MistralList | Style::BarredList => self.object(name, "arguments", &schema),
            Style::MistralNamed => {
                let arguments = self.json(schema);
                let (open, separator) = (self.mark(MISTRAL), self.mark(MISTRAL_ARGUMENTS));
                format!("{open} {} {separator} {arguments}", literal(name))
            }
            Style::DeepSeek | Style::DeepSeekFenced => {
                let arguments = self.json(schema);
                let [open, separator, close] = [CALL, SEPARATOR, END_CALL].map(|m| self.mark(m));
                let name_literal = literal(name);
                match self.style {
                    Style::DeepSeek => {
                        format!("{open} {name_literal} {separator} {arguments} {close}")
                    }
                    _ => {
                        let name = literal(&format!("{name}\n```json\n"));
                        format!(
                            "{open} \"function\" {separator} {name} {arguments} \"\\n```\" {close}"
                        )
                    }
                }
            }
            Style::Parameters => self.tagged(name, &schema),
        }
    }

    /// JSON as templates write it: a blank behind a comma and a colon, and no other white space.
    fn json(&mut self, mut schema: Value) -> String {
        if schema.is_object() {
            schema["x-guidance"] = json!({
                "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ",
            });
        }
        self.rule(&format!("%json {schema}"))
    }

    fn object(&mut self, name: &str, key: &str, schema: &Value) -> String {
        self.json(json!({
            "type": "object",
            "properties": {"name": {"const": name}, key: schema},
            "required": ["name", key],
            "additionalProperties": false,
        }))
    }

    /// A call in tags: the parameters of the schema in its order, texts without quotes.
    fn tagged(&mut self, name: &str, schema: &Value) -> String {
        let mut body = String::new();
        let properties = schema["properties"].as_object();
        for (key, property) in properties.into_iter().flatten() {
            let is_text = property["type"] == "string";
            let value = match property["enum"].as_array().filter(|_| is_text) {
                Some(all) => {
                    let words = all.iter().filter_map(Value::as_str).map(literal);
                    self.rule(&words.collect::<Vec<_>>().join(" | "))
                }
                None if is_text => {
                    let token = format!("TEXT_{}", self.n_rules);
                    self.rules += &format!("{token}: {}\n", without(END_PARAMETER));
                    self.rule(&token)
                }
                None => self.json(property.clone()),
            };
            let begin = literal(&format!("{PARAMETER}{key}>\n"));
            let end = literal(&format!("\n{END_PARAMETER}\n"));
            let parameter = self.rule(&format!("{begin} {value} {end}"));
            let required = schema["required"].as_array();
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == key));
            body += &match is_required {
                true => format!(" {parameter}"),
                false => format!(" {parameter}?"),
            };
        }
        let begin = literal(&format!("\n{FUNCTION}{name}>\n"));
        let end = literal(&format!("{END_FUNCTION}\n"));
        let (open, close) = (self.mark(TAG), self.mark(END_TAG));
        format!("{open} {begin}{body} {end} {close}")
    }
}
