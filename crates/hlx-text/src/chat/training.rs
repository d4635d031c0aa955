//! The parts of a conversation that a model is trained on.

use std::ops::Range;

use super::{ChatInput, ChatTemplate, NAME};
use crate::{Result, TextError};

/// Surround the text of `{% generation %}` blocks while a template is rendered: two characters of
/// Unicode's private use.
pub(super) const MARKS: [char; 2] = ['\u{10fffc}', '\u{10fffd}'];

/// A text, and the byte ranges of it that are trained on.
type Trained = (String, Vec<Range<usize>>);

/// Takes the marks out of a text, and returns what was between them.
fn take_marks(marked: &str) -> Trained {
    let (mut text, mut ranges) = (String::with_capacity(marked.len()), Vec::new());
    let mut start = None;
    for char in marked.chars() {
        if char == MARKS[0] {
            start.get_or_insert(text.len());
        } else if char == MARKS[1] {
            ranges.extend(start.take().map(|start| start..text.len()));
        } else {
            text.push(char);
        }
    }
    (text, ranges)
}

/// Lays a conversation out, with the ranges of the template's `{% generation %}` blocks.
pub(super) fn by_blocks(template: &ChatTemplate, input: &ChatInput) -> Result<Trained> {
    let text = template.rendered(input, None)?;
    if text.contains(MARKS) {
        let reason =
            "the conversation holds U+10FFFC or U+10FFFD, which mark the answers of this template";
        return Err(TextError::argument(NAME, reason));
    }
    let marked = template.rendered(input, Some(MARKS))?;
    let (unmarked, ranges) = take_marks(&marked);
    match unmarked == text {
        true => Ok((text, ranges)),
        false => {
            let reason = "the template changes the text of its {% generation %} blocks, whose ranges are lost";
            Err(TextError::argument(NAME, reason))
        }
    }
}

/// Lays a conversation out; each answer is what the template adds to the prompt before it.
pub(super) fn by_prompts(template: &ChatTemplate, input: &ChatInput) -> Result<Trained> {
    let part = |n: usize, add_generation_prompt: bool| {
        let mut part = input.clone();
        part.messages.truncate(n);
        part.add_generation_prompt = add_generation_prompt;
        template.rendered(&part, None)
    };
    let text = part(input.messages.len(), false)?;
    let mut answers = Vec::new();
    for (at, message) in input.messages.iter().enumerate() {
        if message.role() != "assistant" {
            continue;
        }
        let prompt = part(at, true)?;
        let answer = part(at + 1, false)?;
        let end = answers.last().map_or(0, |last: &Range<usize>| last.end);
        let grows = answer.starts_with(&prompt) && text.starts_with(&answer);
        let follows = grows && prompt.len() >= end;
        if !follows {
            let reason = format!(
                "the template changes what is before message {at} once it follows; mark the answers \
                 with {{% generation %}} and {{% endgeneration %}}"
            );
            return Err(TextError::argument(NAME, reason));
        }
        answers.push(prompt.len()..answer.len());
    }
    Ok((text, answers))
}
