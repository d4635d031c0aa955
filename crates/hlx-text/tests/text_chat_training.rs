//! What is trained on by templates without `{% generation %}` blocks: each answer continues from the prompt that the
//! model is given, and has the end that it has to write.

use std::fs;

use hlx_text::{ChatInput, ChatTemplate, Message, Result};
use serde_json::json;

fn template(name: &str) -> Result<ChatTemplate> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat_shapes");
    let source = fs::read_to_string(format!("{folder}/{name}.jinja")).expect("a template");
    ChatTemplate::new(&source, "<s>", "</s>")?.dated("2025-03-09")
}

fn messages(value: &serde_json::Value) -> Vec<Message> {
    serde_json::from_str(&value.to_string()).expect("messages")
}

/// Two turns, with what was thought before each answer.
fn thoughtful() -> Vec<Message> {
    messages(&json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nfirst"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "<think>\nso\n</think>\n\nsecond"},
    ]))
}

fn plain() -> Vec<Message> {
    let turns = [
        ("user", "one"),
        ("assistant", "first"),
        ("user", "two"),
        ("assistant", "second"),
    ];
    turns
        .map(|(role, content)| Message::new(role, content))
        .into()
}

fn trained(name: &str, messages: &[Message]) -> Result<Vec<String>> {
    let template = template(name)?;
    let (text, answers) = template.render_for_training(messages)?;
    assert_eq!(text, template.render(messages, false)?, "{name}");
    let spoken = messages.iter().enumerate();
    let spoken = spoken.filter(|(_, message)| message.role() == "assistant");
    for ((at, _), range) in spoken.zip(&answers) {
        // What the model is given when it answers, and what it is trained to write, are the beginning of the whole.
        let prompt = template.render(&messages[..at], true)?;
        let both = prompt + &text[range.clone()];
        assert!(text.starts_with(&both), "{name}: {both:?} of {text:?}");
    }
    Ok(answers
        .into_iter()
        .map(|range| text[range].to_owned())
        .collect())
}

#[test]
fn templates_that_shorten_earlier_answers_are_trained_on_without_an_edit() -> Result<()> {
    let empty = "<think>\n\n</think>\n\n";
    let cases: [(&str, Vec<Message>, [String; 2]); 4] = [
        (
            "qwen3",
            plain(),
            [
                "first<|im_end|>\n".to_owned(),
                format!("{empty}second<|im_end|>\n"),
            ],
        ),
        (
            "qwen3",
            thoughtful(),
            [
                "first<|im_end|>\n".to_owned(),
                "<think>\nso\n</think>\n\nsecond<|im_end|>\n".to_owned(),
            ],
        ),
        (
            "phi3",
            plain(),
            [
                "first<|end|>\n".to_owned(),
                "second<|end|>\n</s>".to_owned(),
            ],
        ),
        (
            "phi4_mini",
            plain(),
            ["first<|end|>".to_owned(), "second<|end|></s>".to_owned()],
        ),
    ];
    for (name, talk, expected) in cases {
        assert_eq!(trained(name, &talk)?, expected, "{name}");
    }
    // The prompt is the head of an answer alone, which the thought is left out of.
    assert_eq!(
        trained("r1_plain", &thoughtful())?,
        ["first</s>", "second</s>"]
    );
    Ok(())
}

#[test]
fn calls_of_tools_are_trained_on_as_they_stand_before_their_results() -> Result<()> {
    let call = json!({"type": "function", "function": {"name": "add", "arguments": {"a": 1}}});
    let talk = messages(&json!([
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "content": "1"},
        {"role": "assistant", "content": "one"},
    ]));
    let written =
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n";
    let found = trained("qwen3", &talk)?;
    assert_eq!(found, [written, "<think>\n\n</think>\n\none<|im_end|>\n"]);
    Ok(())
}

#[test]
fn templates_that_are_trained_on_as_before() -> Result<()> {
    let cases = [
        ("chatml", "first<|im_end|>\n", "second<|im_end|>\n"),
        ("qwen2_5", "first<|im_end|>\n", "second<|im_end|>\n"),
        ("hermes", "first<|im_end|>\n", "second<|im_end|>\n"),
        ("llama2", " first </s>", " second </s>"),
        ("llama3", "first<|eot_id|>", "second<|eot_id|>"),
        ("mistral_v1", "first</s> ", "second</s> "),
        ("mistral_v3", " first</s>", " second</s>"),
        ("gemma2", "first<end_of_turn>\n", "second<end_of_turn>\n"),
        ("gemma3", "first<end_of_turn>\n", "second<end_of_turn>\n"),
        ("phi4", "first<|im_end|>", "second<|im_end|>"),
        ("zephyr", "first</s>\n", "second</s>\n"),
        (
            "command_r",
            "first<|END_OF_TURN_TOKEN|>",
            "second<|END_OF_TURN_TOKEN|>",
        ),
    ];
    for (name, first, second) in cases {
        assert_eq!(trained(name, &plain())?, [first, second], "{name}");
    }
    Ok(())
}

#[test]
fn answers_that_no_prompt_leads_to_are_refused() -> Result<()> {
    let off = |name: &str| {
        let mut input = ChatInput::of(&plain());
        input
            .variables
            .insert("enable_thinking".into(), false.into());
        template(name)?.render_input_for_training(&input)
    };
    // The prompt has an empty thought that earlier answers lack.
    assert!(off("qwen3").is_err());
    // The prompt begins a thought, which answers lack.
    assert!(trained("r1", &thoughtful()).is_err());
    // Earlier answers end with another token than the last, which the model would never write.
    let returns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token if loop.last else '<end>' }}\
                   {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    let error = ChatTemplate::new(returns, "", "<return>")?.render_for_training(&plain());
    let line = error.expect_err("refused").to_string();
    assert!(
        line.contains("message 1") && line.contains("{% generation %}"),
        "{line}"
    );
    Ok(())
}
