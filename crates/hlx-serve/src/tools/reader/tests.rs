//! What models write, in pieces of any length.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::fields::Fields;
use crate::tools::take;

/// The functions `f` and `g` of a request.
fn tools(more: &Value) -> Arc<Tools> {
    let parameters = json!({"type": "object", "properties": {
        "city": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"},
        "all": {"type": ["array", "null"]}, "any": {},
    }});
    let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let mut body = json!({"tools": [function("f"), function("g")]});
    for (key, value) in more.as_object().expect("an object") {
        body[key] = value.clone();
    }
    let mut fields = Fields::of_body(body.to_string().as_bytes()).expect("an object");
    Arc::new(take(&mut fields).expect("functions").expect("two"))
}

/// The parts of a text that comes in pieces of `n` characters, pieces that follow each other joined.
fn read(style: Style, more: &Value, text: &str, n: usize) -> Vec<Part> {
    let mut reader = Reader::new(style, tools(more));
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
            (Some(Part::Arguments(before)), Part::Arguments(text)) => *before += &text,
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::Text(text.to_owned())]
}

fn call(name: &str, arguments: &str) -> Vec<Part> {
    vec![
        Part::Call(name.to_owned()),
        Part::Arguments(arguments.to_owned()),
        Part::End,
    ]
}

fn check(style: Style, more: &Value, cases: &[(&str, Vec<Vec<Part>>)]) {
    for (whole, expected) in cases {
        for n in [1, 2, 3, 5, 1000] {
            let found = read(style, more, whole, n);
            assert_eq!(found, expected.concat(), "{style:?}: {whole:?} by {n}");
        }
    }
}

#[test]
fn calls_are_told_from_text_wherever_pieces_end() {
    let both = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}<\\\"\"]}}\n</tool_call>\n\
                <tool_call>{\"name\": \"g\"}</tool_call>\n";
    check(
        Style::Tagged,
        &json!({}),
        &[
            ("a < b\n", vec![text("a < b\n")]),
            ("", vec![]),
            (
                both,
                vec![call("f", "{\"a\": [1, \"}<\\\"\"]}"), call("g", "{}")],
            ),
            (
                "so: <tool_call>{\"name\": \"g\"}</tool_call>",
                vec![text("so:"), call("g", "{}")],
            ),
            (
                "<tool_call>no</tool_call>",
                vec![text("<tool_call>no</tool_call>")],
            ),
            ("a <tool_call>{\"na", vec![text("a <tool_call>{\"na")]),
            ("a <tool_", vec![text("a <tool_")]),
            // The arguments first, as a text of JSON, or none.
            (
                "<tool_call>{\"arguments\": {\"b\": 1}, \"name\": \"h\"}</tool_call>",
                vec![call("h", "{\"b\": 1}")],
            ),
            (
                "<tool_call>{\"name\": \"h\", \"arguments\": \"{\\\"b\\\": 1}\"}</tool_call>",
                vec![call("h", "{\"b\": 1}")],
            ),
            (
                "<tool_call>{\"name\": \"h\", \"arguments\": null}</tool_call>",
                vec![call("h", "{}")],
            ),
            // An answer that was cut off, and one that is no JSON from some place on.
            (
                "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x",
                vec![call("f", "{\"a\": \"x")],
            ),
            (
                "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": </tool_call> b",
                vec![call("f", "{\"a\": "), text("b")],
            ),
        ],
    );
}

/// Found by the fuzz target `requests`: the blank before a mark that begins no call is text, also where the text before it
/// has been told already.
#[test]
fn white_space_before_a_mark_is_text_wherever_pieces_end() {
    let no_call = "<tool_call>{\"name\": \"f\"}</tool_call> and <tool_call>no";
    check(
        Style::Tagged,
        &json!({}),
        &[(no_call, vec![call("f", "{}"), text("and <tool_call>no")])],
    );
}

#[test]
fn calls_in_tags_have_the_types_of_the_schema() {
    let whole = "well\n<tool_call>\n<function=f>\n<parameter=city>\nNew\nYork\n</parameter>\n<parameter=n>\n3\n\
                 </parameter>\n<parameter=on>\nTrue\n</parameter>\n<parameter=all>\n[1, 2]\n</parameter>\n\
                 <parameter=any>\nword\n</parameter>\n<parameter=other>\n7\n</parameter>\n</function>\n</tool_call>\n\
                 <tool_call>\n<function=g>\n</function>\n</tool_call>";
    let arguments = "{\"city\": \"New\\nYork\", \"n\": 3, \"on\": true, \"all\": [1,2], \"any\": \"word\", \
                     \"other\": \"7\"}";
    check(
        Style::Parameters,
        &json!({}),
        &[
            (
                whole,
                vec![text("well"), call("f", arguments), call("g", "{}")],
            ),
            ("<tool_call>\nno", vec![text("<tool_call>\nno")]),
            (
                "<tool_call><function=f><parameter=n>1</parameter><parameter=ci",
                vec![call("f", "{\"n\": 1}")],
            ),
        ],
    );
}

#[test]
fn llama_s_calls_are_objects_alone() {
    let f = "{\"name\": \"f\", \"parameters\": {\"n\": 1}}";
    let tagged = format!("<|python_tag|>{f}; {f}");
    check(
        Style::Bare,
        &json!({}),
        &[
            (f, vec![call("f", "{\"n\": 1}")]),
            (&format!("\n{f}\n"), vec![call("f", "{\"n\": 1}")]),
            (
                &tagged,
                vec![call("f", "{\"n\": 1}"), call("f", "{\"n\": 1}")],
            ),
            (
                "{\"type\": \"function\", \"name\": \"g\", \"parameters\": {}}",
                vec![call("g", "{}")],
            ),
            // JSON that is no call.
            (
                "{\"name\": \"f\", \"age\": 3}",
                vec![text("{\"name\": \"f\", \"age\": 3}")],
            ),
            (
                "{\"name\": \"h\", \"parameters\": {}}",
                vec![text("{\"name\": \"h\", \"parameters\": {}}")],
            ),
            ("{}", vec![text("{}")]),
            ("see {\"name\": \"f\"}", vec![text("see {\"name\": \"f\"}")]),
            (
                "<|python_tag|>f.call(1)",
                vec![text("<|python_tag|>f.call(1)")],
            ),
        ],
    );
}

#[test]
fn lists_of_calls_are_read() {
    let list = "[{\"name\": \"f\", \"arguments\": {\"n\": 1}, \"id\": \"123456789\"}, {\"name\": \"g\", \"arguments\": {}}]";
    let both = || vec![call("f", "{\"n\": 1}"), call("g", "{}")];
    check(
        Style::MistralList,
        &json!({}),
        &[
            (&format!("[TOOL_CALLS] {list}"), both()),
            (
                &format!("so [TOOL_CALLS]{list}"),
                [vec![text("so")], both()].concat(),
            ),
        ],
    );
    check(
        Style::MistralNamed,
        &json!({}),
        &[
            (
                "[TOOL_CALLS]f[ARGS]{\"n\": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
                both(),
            ),
            (&format!("[TOOL_CALLS]{list}"), both()),
            ("[TOOL_CALLS]f[ARGS]{\"n\": ", vec![call("f", "{\"n\": ")]),
        ],
    );
    check(
        Style::BarredList,
        &json!({}),
        &[
            (&format!("<|tool_call|>{list}"), both()),
            (&format!("<|tool_call|>{list}<|/tool_call|>"), both()),
            ("<|tool_call|>[]", vec![text("<|tool_call|>[]")]),
        ],
    );
}

#[test]
fn deepseek_s_calls_are_read() {
    let fenced = "so<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```\
                  <｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>\
                  <｜tool▁calls▁end｜>";
    let plain = "so<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜>\
                 <｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    let all = || vec![text("so"), call("f", "{\"n\": 1}"), call("g", "{}")];
    check(
        Style::DeepSeekFenced,
        &json!({}),
        &[
            (fenced, all()),
            (
                "<｜tool▁calls▁begin｜>x",
                vec![text("<｜tool▁calls▁begin｜>x")],
            ),
        ],
    );
    check(Style::DeepSeek, &json!({}), &[(plain, all())]);
}

#[test]
fn only_the_first_call_is_read_where_one_is_wanted() {
    let one = json!({"parallel_tool_calls": false});
    let f = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    check(
        Style::Tagged,
        &one,
        &[(
            &format!("a\n{f}\n{f} and"),
            vec![text("a"), call("f", "{}")],
        )],
    );
}

/// A name is told before the arguments are whole, and these in pieces.
#[test]
fn a_call_streams() {
    let mut reader = Reader::new(Style::Tagged, tools(&json!({})));
    assert_eq!(reader.push("<tool_call>{\"name\": \"f\", \"arg"), []);
    assert_eq!(
        reader.push("uments\": {\"a\""),
        [
            Part::Call("f".to_owned()),
            Part::Arguments("{\"a\"".to_owned())
        ]
    );
    assert_eq!(reader.push(": 1"), [Part::Arguments(": 1".to_owned())]);
    assert_eq!(
        reader.push("}}"),
        [Part::Arguments("}".to_owned()), Part::End]
    );
}
