//! Chat templates: the text of jinja2, what is trained on, templates that raise.

use hlx_text::{ChatTemplate, Message, Result};
use serde::Deserialize;

#[derive(Deserialize)]
struct Rendered {
    name: String,
    template: String,
    messages: Vec<Message>,
    prompt: bool,
    text: Option<String>,
    error: Option<String>,
}

fn talk() -> Vec<Message> {
    let turns = [
        ("user", "2+2?"),
        ("assistant", "4"),
        ("user", "And 1?"),
        ("assistant", "5!"),
    ];
    turns
        .map(|(role, content)| Message::new(role, content))
        .into()
}

#[test]
fn templates_render_as_jinja2_does() -> Result<()> {
    let cases: Vec<Rendered> =
        serde_json::from_str(include_str!("fixtures/chats.json")).expect("a fixture");
    assert_eq!(cases.len(), 18);
    for case in cases {
        let name = &case.name;
        let template = ChatTemplate::new(&case.template, "<s>", "</s>")?;
        match (template.render(&case.messages, case.prompt), case.text) {
            (Ok(text), Some(expected)) => assert_eq!(text, expected, "{name}"),
            (Err(error), None) => {
                let line = error.to_string();
                let expected = case.error.expect("a message");
                assert!(line.ends_with(&expected), "{name}: {line}");
                assert!(line.starts_with("chat_template: line "), "{line}");
            }
            (found, expected) => panic!("{name}: {found:?}, expected {expected:?}"),
        }
    }
    Ok(())
}

#[test]
fn answers_are_what_follows_the_prompts() -> Result<()> {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}\
                  {% if add_generation_prompt %}<assistant>{% endif %}";
    let template = ChatTemplate::new(source, "", "")?;
    let (text, answers) = template.render_for_training(&talk())?;
    assert_eq!(
        text,
        "<user>2+2?</>\n<assistant>4</>\n<user>And 1?</>\n<assistant>5!</>\n"
    );
    let found: Vec<&str> = answers.into_iter().map(|range| &text[range]).collect();
    assert_eq!(found, ["4</>\n", "5!</>\n"]);
    Ok(())
}

#[test]
fn generation_blocks_say_what_is_trained_on() -> Result<()> {
    let source = "{% for m in messages %}\n<{{ m.role }}>\n\
                  {%- if m.role == 'assistant' %}\n  {% generation %}\n {{ m.content }}.\n\
                  {%- endgeneration %}\n{% else %}{{ m.content }}{% endif %}\n{% endfor %}";
    let template = ChatTemplate::new(source, "", "")?;
    let (text, answers) = template.render_for_training(&talk())?;
    let found: Vec<&str> = answers.into_iter().map(|range| &text[range]).collect();
    assert_eq!(found, [" 4.", " 5!."]);
    assert_eq!(text, template.render(&talk(), false)?);
    assert!(!text.contains(['\u{10fffc}', '\u{10fffd}']));
    Ok(())
}

#[test]
fn templates_that_fail_say_why_in_one_line() -> Result<()> {
    let compile = |source: &str| {
        let line = ChatTemplate::new(source, "", "").expect_err("must fail");
        line.to_string()
    };
    assert!(compile("{% for %}").starts_with("chat_template: line 1: syntax error"));
    // A tag whose percent sign is its only one once cut a text backwards.
    assert!(compile("{%}").starts_with("chat_template: line 1: syntax error"));
    let render = |source: &str| {
        let line = ChatTemplate::new(source, "", "")?.render(&talk(), false);
        let line = line.expect_err("must fail").to_string();
        assert!(!line.contains('\n'), "{line}");
        Ok::<String, hlx_text::TextError>(line)
    };
    let raised = render("\n{{ raise_exception('no system\nmessages') }}")?;
    assert_eq!(raised, "chat_template: line 2: no system messages");
    assert!(render("{{ messages.no.such }}")?.contains("undefined"));
    assert!(render("{{ messages | cut }}")?.contains("unknown filter"));
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}\
                   {% endfor %}{% endfor %}{% endfor %}";
    assert!(render(endless)?.contains("fuel"));
    assert!(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")?.contains("recursion"));
    let changing =
        "{% for m in messages %}{% if loop.last %}!{% endif %}{{ m.content }}{% endfor %}";
    let line = ChatTemplate::new(changing, "", "")?.render_for_training(&talk());
    let line = line.expect_err("changes").to_string();
    assert!(line.contains("changes what is before message 1"), "{line}");
    // A prompt that is shorter than the answer before it.
    let shrinking = "{{ messages | length if not add_generation_prompt }}{% for m in messages[1:] %}a\
                     {% endfor %}";
    let twice = [
        Message::new("assistant", "a"),
        Message::new("assistant", "b"),
    ];
    let line = ChatTemplate::new(shrinking, "", "")?.render_for_training(&twice);
    assert!(line.is_err());
    Ok(())
}
