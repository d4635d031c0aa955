//! Chat templates as they lie in model folders: files, lists, several names; ends of lines; dates.

use std::fs;
use std::path::{Path, PathBuf};

use hlx_text::{ChatInput, ChatTemplate, ChatValue, Message, Result, Tokenizer};

const TOKENIZER: &str = r#"{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"<s>": 0, "</s>": 1},
    "unk_token": "<s>"}}"#;

/// Names of files and what they hold.
type Files<'a> = &'a [(&'a str, &'a str)];

struct Folder(PathBuf);

impl Folder {
    /// A folder with a tokenizer and other files.
    fn with(name: &str, files: Files<'_>) -> Self {
        let path = std::env::temp_dir().join(format!("hlx-chat-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        for (name, text) in [("tokenizer.json", TOKENIZER)].iter().chain(files) {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).expect("made");
            fs::write(file, text).expect("written");
        }
        Self(path)
    }

    fn template(&self) -> Result<ChatTemplate> {
        ChatTemplate::of(&Tokenizer::open(&self.0)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// What a conversation becomes without and with tools.
fn texts(template: &ChatTemplate) -> Result<[String; 2]> {
    let mut input = ChatInput::of(&[Message::new("user", "hi")]);
    let plain = template.render_input(&input)?;
    let tool: ChatValue = serde_json::from_str(r#"{"name": "f"}"#).expect("a tool");
    input.tools = Some(vec![tool]);
    Ok([plain, template.render_input(&input)?])
}

const LIST: &str = r#"{"chat_template": [{"name": "default", "template": "listed"},
    {"name": "tool_use", "template": "listed tools"}], "bos_token": {"content": "<s>"}, "eos_token": null}"#;
const OBJECT: &str = r#"{"chat_template": {"default": "object", "tool_use": "object tools"}}"#;
const TEXT: &str = r#"{"chat_template": "text"}"#;

/// What transformers 5.24 takes of the same folders (`chat_template.json` is read by its processors alone).
#[test]
fn of_several_templates_those_of_transformers_are_taken() -> Result<()> {
    let (config, file) = ("tokenizer_config.json", "chat_template.jinja");
    let (tools, other) = (
        "additional_chat_templates/tool_use.jinja",
        "additional_chat_templates/rag.jinja",
    );
    let cases: [(Files<'_>, [&str; 2]); 9] = [
        (&[(config, TEXT)], ["text", "text"]),
        (&[(config, LIST)], ["listed", "listed tools"]),
        (&[(config, OBJECT)], ["object", "object tools"]),
        (&[(config, LIST), (file, "file")], ["file", "file"]),
        (
            &[(config, TEXT), (file, "file"), (tools, "file tools")],
            ["file", "file tools"],
        ),
        (&[(file, "file"), (other, "rag")], ["file", "file"]),
        (&[("chat_template.json", TEXT)], ["text", "text"]),
        (
            &[("chat_template.json", TEXT), (config, LIST)],
            ["listed", "listed tools"],
        ),
        (
            &[("chat_template.json", OBJECT), (file, "file")],
            ["file", "file"],
        ),
    ];
    for (at, (files, expected)) in cases.into_iter().enumerate() {
        let folder = Folder::with(&format!("several-{at}"), files);
        assert_eq!(texts(&folder.template()?)?, expected, "{files:?}");
    }
    Ok(())
}

#[test]
fn templates_without_a_default_or_of_another_form_are_one_clear_line() {
    let config = "tokenizer_config.json";
    let cases = [
        (
            (
                config,
                r#"{"chat_template": [{"name": "rag", "template": "x"}, {"name": "a", "template": "y"}]}"#,
            ),
            "the chat templates `a`, `rag`, and none of them is named `default`",
        ),
        (
            ("additional_chat_templates/rag.jinja", "x"),
            "the chat templates `rag`, and none of them is named `default`",
        ),
        (
            (config, r#"{"chat_template": [{"name": "default"}]}"#),
            "a list of",
        ),
        ((config, r#"{"chat_template": ["x"]}"#), "a list of"),
        ((config, r#"{"chat_template": 1}"#), "a list of"),
        (
            (config, "{}"),
            "the tokenizer has no chat template beside it",
        ),
    ];
    for (at, (file, expected)) in cases.into_iter().enumerate() {
        let folder = Folder::with(&format!("line-{at}"), &[file]);
        let line = folder.template().expect_err("refused").to_string();
        assert!(line.contains(expected) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn special_tokens_are_found_under_the_names_that_are_stated() -> Result<()> {
    let config = r#"{"chat_template": "{{ bos_token }}{{ unk_token }}{{ pad_token is defined }}{{ sep_token is defined }}",
        "bos_token": {"content": "<s>"}, "unk_token": "<unk>", "pad_token": null}"#;
    let folder = Folder::with("tokens", &[("tokenizer_config.json", config)]);
    assert_eq!(texts(&folder.template()?)?[0], "<s><unk>FalseFalse");
    // A variable of the user replaces a token.
    let mut input = ChatInput::of(&[Message::new("user", "hi")]);
    input.variables.insert("bos_token".into(), "!".into());
    assert_eq!(folder.template()?.render_input(&input)?, "!<unk>FalseFalse");
    Ok(())
}

/// Recorded from transformers, which reads every end of a line as `\n` and takes one at the end away.
#[test]
fn ends_of_lines_are_those_of_jinja() -> Result<()> {
    let cases = [
        ("a\r\nb", "a\nb"),
        ("a\rb\r\r\nc", "a\nb\n\nc"),
        ("a\r\n\r\n", "a\n"),
        ("a\n\n", "a\n"),
        ("{% if true %}\r\n a\r\n{% endif %}\r\nb", " a\nb"),
        ("{{ 'a\r\nb' }}", "a\nb"),
        ("{{ 'a\\r\\nb' }}", "a\r\nb"),
        ("{# c #}\r\na\x0cb\x0b", "a\x0cb\x0b"),
        ("\x0c{% if true %}a{% endif %}", "a"),
        ("a\0b", "a\0b"),
        ("\u{feff}a", "\u{feff}a"),
        ("\u{feff}{% if true %}\na{% endif %}", "\u{feff}a"),
        ("a\u{2028}b\u{85}", "a\u{2028}b\u{85}"),
    ];
    for (source, expected) in cases {
        let text = ChatTemplate::new(source, "", "")?.render(&[], false)?;
        assert_eq!(text, expected, "{source:?}");
        let folder = Folder::with("lines", &[("chat_template.jinja", source)]);
        assert_eq!(texts(&folder.template()?)?[0], expected, "{source:?}");
    }
    Ok(())
}

#[test]
fn dates_in_templates_are_the_one_that_is_stated() -> Result<()> {
    let source = "{% macro today() %}{{ strftime_now('%d %b %Y') }}{% endmacro %}{{ today() }}|{{ date_string }}";
    let render = |template: ChatTemplate| template.render(&[Message::new("user", "hi")], false);
    let new = || ChatTemplate::new(source, "", "");
    assert_eq!(render(new()?)?, "26 Jul 2024|");
    assert_eq!(
        render(new()?.dated("2025-02-28")?)?,
        "28 Feb 2025|28 Feb 2025"
    );
    for wrong in [
        "2025-02-29",
        "2025-2-1",
        "28.2.2025",
        "",
        "2025-01-01T24:00",
        "0000-01-01",
    ] {
        let line = new()?.dated(wrong).expect_err("refused").to_string();
        assert!(line.contains("is no date; write YYYY-MM-DD"), "{line}");
    }
    let error = ChatTemplate::new("{{ strftime_now('%Q') }}", "", "")?;
    let line = render(error).expect_err("refused").to_string();
    assert!(line.ends_with("`%Q` is no part of a date"), "{line}");
    Ok(())
}

/// Recorded from Python: datetime(..).strftime(..) for each of the days.
#[test]
fn dates_are_formatted_as_strftime_does() -> Result<()> {
    let formats = "%a %A %b %B %d %j %m %y %Y %H %I %M %S %p %U %W %V %G %u %w %e %-d %-m %-H %C %D %F %T %R %% %h %x %X";
    for (date, expected) in include!("fixtures/dates.in") {
        let template = ChatTemplate::new(&format!("{{{{ strftime_now('{formats}') }}}}"), "", "")?;
        assert_eq!(
            template.dated(date)?.render(&[], false)?,
            expected,
            "{date}"
        );
    }
    Ok(())
}
