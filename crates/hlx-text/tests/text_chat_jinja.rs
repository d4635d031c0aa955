//! Chat templates against `transformers`: snippets of every feature of Jinja, and whole templates with the tokens of
//! well-known models.

use std::collections::BTreeMap;

use hlx_text::{ChatInput, ChatTemplate, ChatValue, Message, Result};
use serde::Deserialize;

#[derive(Deserialize)]
struct Snippets {
    context: Names,
    cases: Vec<Snippet>,
}

#[derive(Deserialize)]
struct Snippet {
    source: String,
    /// What Jinja2 makes of it; none where it fails, or where HLX refuses by intent.
    text: Option<String>,
}

/// The input of a template: names of `apply_chat_template`, and others.
#[derive(Clone, Default, Deserialize)]
struct Names {
    #[serde(default)]
    messages: Vec<Message>,
    tools: Option<Vec<ChatValue>>,
    documents: Option<Vec<ChatValue>>,
    #[serde(flatten)]
    variables: BTreeMap<String, ChatValue>,
}

impl Names {
    fn input(self, add_generation_prompt: bool) -> ChatInput {
        ChatInput {
            messages: self.messages,
            tools: self.tools,
            documents: self.documents,
            add_generation_prompt,
            variables: self.variables,
        }
    }
}

#[test]
fn every_feature_of_jinja_gives_the_text_of_transformers() {
    let fixture = include_str!("fixtures/template_snippets.json");
    let snippets: Snippets = serde_json::from_str(fixture).expect("a fixture");
    assert!(snippets.cases.len() > 900);
    let input = snippets.context.input(true);
    let mut wrong = Vec::new();
    for Snippet { source, text } in snippets.cases {
        let template = ChatTemplate::new(&source, "<s>", "");
        let found = template.and_then(|template| template.render_input(&input));
        match (&found, &text) {
            (Ok(found), Some(text)) if found == text => {}
            (Err(error), None) => assert!(!error.to_string().contains('\n'), "{error}"),
            _ => wrong.push(format!("{source:?}: {found:?}, expected {text:?}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ: {}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[derive(Deserialize)]
struct Shapes {
    talks: BTreeMap<String, Vec<Message>>,
    extras: BTreeMap<String, Names>,
    /// Template, conversation, the texts of its `{% generation %}` blocks.
    masks: Vec<(String, String, Vec<String>)>,
    /// Template, conversation, other names, whether an answer begins, text.
    cases: Vec<(String, String, String, bool, Option<String>)>,
}

fn shapes() -> Shapes {
    serde_json::from_str(include_str!("fixtures/chat_shapes.json")).expect("a fixture")
}

fn shape(name: &str) -> Result<ChatTemplate> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat_shapes");
    let source = std::fs::read_to_string(format!("{folder}/{name}.jinja")).expect("a template");
    ChatTemplate::new(&source, "<s>", "</s>")?.dated("2025-03-09 14:05:07")
}

#[test]
fn templates_in_the_shapes_of_models_give_the_text_of_transformers() -> Result<()> {
    let shapes = shapes();
    let (mut names, mut wrong) = (Vec::new(), Vec::new());
    for (name, talk, extra, prompt, text) in shapes.cases {
        let mut input = shapes.extras[&extra].clone().input(prompt);
        input.messages = shapes.talks[&talk].clone();
        let found = shape(&name)?.render_input(&input);
        if found.as_ref().ok() != text.as_ref() {
            wrong.push(format!(
                "{name}, {talk}, {extra}, {prompt}: {found:?}, expected {text:?}"
            ));
        }
        names.push(name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    names.dedup();
    assert_eq!(names.len(), 19);
    Ok(())
}

#[test]
fn generation_blocks_are_the_answers_that_transformers_masks() -> Result<()> {
    let shapes = shapes();
    assert!(!shapes.masks.is_empty());
    for (name, talk, masked) in shapes.masks {
        let found = shape(&name)?.render_for_training(&shapes.talks[&talk]);
        let place = format!("{name}, {talk}");
        match found {
            Ok((text, answers)) => {
                let found: Vec<&str> = answers.into_iter().map(|range| &text[range]).collect();
                assert_eq!(found, masked, "{place}");
            }
            Err(error) => panic!("{place}: {error}"),
        }
    }
    Ok(())
}
