//! Calls of functions in the forms of several families of models: their templates say which one is a model's.

mod common;

use common::Server;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// Templates of our own, each with what tells its family.
const TEMPLATES: [(&str, &str); 8] = [
    (
        "tagged",
        "<tool_call>{\"name\": NAME, \"arguments\": OBJECT}</tool_call>",
    ),
    (
        "parameters",
        "<tool_call>\n<function=NAME>\n<parameter=KEY>\nvalue\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "bare",
        "Respond in the format {\"name\": function name, \"parameters\": dictionary of arguments}",
    ),
    (
        "mistral list",
        "[TOOL_CALLS] [{\"name\": NAME, \"arguments\": OBJECT, \"id\": ID}]",
    ),
    ("mistral named", "[TOOL_CALLS]NAME[ARGS]OBJECT"),
    (
        "barred list",
        "<|tool_call|>[{\"name\": NAME, \"arguments\": OBJECT}]",
    ),
    (
        "deepseek fenced",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nOBJECT\n```",
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>OBJECT",
    ),
];

fn template(teaches: &str) -> String {
    let rest = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}a:";
    format!("{{% if tools %}}t{{% endif %}}{{# {teaches} #}}{rest}")
}

fn tools(is_strict: bool) -> Value {
    let parameters = json!({
        "type": "object", "properties": {"on": {"type": "boolean"}, "way": {"type": "string", "enum": ["up", "down"]}},
        "required": ["on", "way"], "additionalProperties": false,
    });
    let tool = |name: &str| {
        let function = json!({"name": name, "parameters": parameters, "strict": is_strict});
        json!({"type": "function", "function": function})
    };
    json!([tool("light"), tool("door")])
}

/// The calls of a choice, each as its name and its arguments.
fn calls(message: &Value) -> Vec<(String, Value)> {
    let all = message["tool_calls"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let call = |call: &Value| {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().expect("a text");
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| panic!("{arguments}"));
        (
            function["name"].as_str().expect("a name").to_owned(),
            arguments,
        )
    };
    all.iter().map(call).collect()
}

fn follows(arguments: &Value) -> bool {
    arguments["on"].is_boolean() && ["up", "down"].iter().any(|way| arguments["way"] == *way)
}

#[test]
fn a_function_that_must_be_called_is_called_in_every_form() {
    for (family, teaches) in TEMPLATES {
        let server = Server::start_with(&template(teaches));
        let named = json!({"type": "function", "function": {"name": "door"}});
        for choice in [json!("required"), named] {
            let mut body = json!({
                "model": "small", "messages": [{"role": "user", "content": "a"}], "seed": 2, "tools": tools(false),
                "tool_choice": choice, "parallel_tool_calls": false, "max_tokens": 200,
            });
            let found = server.answer(CHAT, &body);
            let (choice, whole) = (&found["choices"][0], calls(&found["choices"][0]["message"]));
            assert_eq!(
                (&choice["finish_reason"], whole.len()),
                (&json!("tool_calls"), 1),
                "{family}: {found}"
            );
            assert!(choice["message"]["content"].is_null(), "{family}: {found}");
            assert!(follows(&whole[0].1), "{family}: {whole:?}");
            if body["tool_choice"].is_object() {
                assert_eq!(whole[0].0, "door", "{family}");
            }
            let id = choice["message"]["tool_calls"][0]["id"]
                .as_str()
                .expect("an id");
            assert_eq!(
                id.len() == 9,
                family.starts_with("mistral"),
                "{family}: {id}"
            );
            // The stream is the same in pieces, the name first.
            body["stream"] = json!(true);
            let chunks = server.stream(CHAT, &body);
            let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
            let deltas: Vec<&Value> = deltas
                .map(|delta| &delta["tool_calls"][0])
                .filter(|one| !one.is_null())
                .collect();
            assert_eq!(deltas[0]["function"]["name"], whole[0].0, "{family}");
            assert!(
                deltas[1..]
                    .iter()
                    .all(|one| one["id"].is_null() && one["index"] == 0),
                "{family}"
            );
            let pieces = deltas
                .iter()
                .filter_map(|one| one["function"]["arguments"].as_str());
            let arguments: Value = serde_json::from_str(&pieces.collect::<String>()).expect("JSON");
            assert_eq!(arguments, whole[0].1, "{family}");
        }
    }
}

/// What a model that knows nothing writes is no call, or one whose arguments follow their schema.
#[test]
fn strict_functions_are_called_by_their_schemas_or_not_at_all() {
    for (family, teaches) in TEMPLATES {
        let server = Server::start_with(&template(teaches));
        let body = json!({
            "model": "small", "messages": [{"role": "user", "content": "a"}], "seed": 5, "tools": tools(true), "n": 8,
            "max_tokens": 60, "temperature": 0.7,
        });
        let found = server.answer(CHAT, &body);
        for choice in found["choices"].as_array().expect("choices") {
            if choice["finish_reason"] == "tool_calls" {
                let all = calls(&choice["message"]);
                assert!(
                    all.iter().all(|(_, arguments)| follows(arguments)),
                    "{family}: {choice}"
                );
            }
        }
        // Beside an answer of a schema there are calls, and nothing else.
        let mut body = body;
        body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "it", "schema": {"type": "boolean"}}});
        body["tools"] = tools(false);
        body["max_tokens"] = json!(200);
        let found = server.answer(CHAT, &body);
        for choice in found["choices"].as_array().expect("choices") {
            match choice["finish_reason"].as_str() {
                Some("stop") => {
                    let text = choice["message"]["content"].as_str().expect("a text");
                    assert!(
                        ["true", "false"].contains(&text.trim()),
                        "{family}: {choice}"
                    );
                }
                Some("tool_calls") => {
                    assert!(
                        calls(&choice["message"])
                            .iter()
                            .all(|(_, one)| follows(one)),
                        "{family}: {choice}"
                    );
                }
                other => assert_eq!(other, Some("length"), "{family}: {choice}"),
            }
        }
    }
}

/// A tokenizer of bytes whose last tokens are special.
fn with_specials(specials: &[&str]) -> hlx_text::Tokenizer {
    let is_shown = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let n_bytes = 256 - specials.len();
    let mut hidden = 256;
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..n_bytes as u8 {
        let code = match is_shown(byte) {
            true => u32::from(byte),
            false => {
                hidden += 1;
                hidden - 1
            }
        };
        vocabulary.insert(
            char::from_u32(code).expect("a character").to_string(),
            json!(byte),
        );
    }
    let added = specials.iter().enumerate().map(|(at, text)| {
        json!({"id": n_bytes + at, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    });
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    hlx_text::Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer")
}

/// Marks that are special tokens are drawn as these tokens, and found in the answer.
#[test]
fn marks_that_are_special_tokens_are_read() {
    let (_, named) = TEMPLATES[4];
    let (_, deepseek) = TEMPLATES[7];
    let sections = [
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ];
    for (teaches, specials, n_marks) in [
        (named, &["[TOOL_CALLS]", "[ARGS]"][..], 2),
        (deepseek, &sections[..], 5),
    ] {
        let server = Server::start_of(with_specials(specials), &template(teaches));
        let body = json!({
            "model": "small", "messages": [{"role": "user", "content": "a"}], "seed": 2, "tools": tools(false),
            "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 200,
        });
        let found = server.answer(CHAT, &body);
        let choice = &found["choices"][0];
        let all = calls(&choice["message"]);
        assert_eq!(
            (&choice["finish_reason"], all.len()),
            (&json!("tool_calls"), 1),
            "{found}"
        );
        assert!(follows(&all[0].1), "{found}");
        // Each mark is one token, and each other character.
        let arguments = choice["message"]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .expect("a text");
        let n_tokens = n_marks + all[0].0.len() + arguments.len();
        assert_eq!(found["usage"]["completion_tokens"], n_tokens, "{found}");
    }
}

#[test]
fn a_template_without_calls_takes_no_functions() {
    let server = Server::start_with(&template("nothing"));
    let body = json!({"model": "small", "messages": [{"role": "user", "content": "a"}], "tools": tools(false)});
    let (status, param, message) = server.refused(CHAT, &body);
    assert_eq!((status, &param[..]), (400, "tools"));
    assert!(message.contains("<tool_call>"), "{message}");
    let mut none = body;
    none["tool_choice"] = json!("none");
    none["max_tokens"] = json!(1);
    server.answer(CHAT, &none);
}
